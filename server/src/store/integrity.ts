/** For `doctor` and backups: checks the MAC of every row that grants rights. */

import { type Engine, readOnly } from './engine/sql.ts'
import type { Keys } from './key/key.ts'
import { storeOver } from './store.ts'

export async function countTampered(engine: Engine, keys: Keys): Promise<string[]> {
  const store = storeOver(readOnly(engine), keys)
  const found = [
    ['memberships', await store.members.countTampered()],
    ['service accounts', await store.serviceAccounts.countTampered()],
    ['workspace policies', await store.policies.countTampered()],
    ['invites', await store.invites.countTampered()],
    ['tokens', await store.tokens.countTampered()],
    ['identities', await store.oidc.countTampered()],
    ['shares', await store.shares.countTampered()],
    ['syncs', await store.syncs.countTampered()],
    ['accounts', await store.accounts.countTampered()],
    ['sessions', await store.sessions.countTampered()],
    ['second factors of sessions', await store.sessionFactors.countTampered()],
    ['second factors', await store.mfa.countTampered()],
    ['email confirmations', await store.emailConfirmations.countTampered()],
    ['password resets', await store.passwordResets.countTampered()],
    ['device logins', await store.devices.countTampered()],
  ] as const
  return found.filter(([, count]) => count > 0).map(([what, count]) => `${count} ${what}`)
}
