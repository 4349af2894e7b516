/** All stores over one database handle: the pool or an open transaction. */
import { accountStore } from './account.ts'
import { auditStore } from './audit.ts'
import { auditRetentionStore } from './audit-retention.ts'
import { changeStore } from './change.ts'
import { deviceStore } from './device.ts'
import { emailConfirmationStore } from './email-confirmation.ts'
import type { Db } from './engine/sql.ts'
import { environmentStore } from './environment.ts'
import { inviteStore } from './invite.ts'
import type { Keys } from './key.ts'
import { loginAddressStore } from './login-address.ts'
import { loginAttemptStore } from './login-attempt.ts'
import { memberStore } from './member.ts'
import { mfaStore } from './mfa.ts'
import { oidcStore } from './oidc.ts'
import { projectStore } from './project.ts'
import { leftoverStore } from './purge-queue.ts'
import { secretStore } from './secret.ts'
import { secretReminderStore } from './secret-reminder.ts'
import { secretValueStore } from './secret-value.ts'
import { secretVersionStore } from './secret-version.ts'
import { sessionStore } from './session.ts'
import { shareStore } from './share.ts'
import { shareViewStore } from './share-view.ts'
import { syncStore } from './sync.ts'
import { syncHoldStore } from './sync-hold.ts'
import { syncLedgerStore } from './sync-ledger.ts'
import { syncRunStore } from './sync-run.ts'
import { teamStore } from './team.ts'
import { tokenStore } from './token.ts'
import { workspaceStore } from './workspace.ts'

export function createStore(db: Db, keys: Keys) {
  return {
    accounts: accountStore(db, keys),
    audit: auditStore(db),
    auditRetention: auditRetentionStore(db),
    changes: changeStore(db),
    devices: deviceStore(db, keys),
    emailConfirmations: emailConfirmationStore(db, keys),
    environments: environmentStore(db, keys),
    leftovers: leftoverStore(db),
    invites: inviteStore(db, keys),
    loginAddresses: loginAddressStore(db, keys),
    loginAttempts: loginAttemptStore(db, keys),
    members: memberStore(db, keys),
    mfa: mfaStore(db, keys),
    oidc: oidcStore(db, keys),
    projects: projectStore(db),
    secrets: secretStore(db),
    secretReminders: secretReminderStore(db),
    secretValues: secretValueStore(db, keys),
    secretVersions: secretVersionStore(db),
    sessions: sessionStore(db, keys),
    shares: shareStore(db, keys),
    shareViews: shareViewStore(db),
    syncs: syncStore(db, keys),
    syncHolds: syncHoldStore(db),
    syncLedger: syncLedgerStore(db),
    syncRuns: syncRunStore(db),
    teams: teamStore(db),
    tokens: tokenStore(db, keys),
    workspaces: workspaceStore(db, keys),
  }
}

export type Store = ReturnType<typeof createStore>

const stores = new WeakMap<Db, Store>()

/** Caches the store per handle: SQLite's writer uses one handle for the life of the process. */
export function storeOver(db: Db, keys: Keys): Store {
  let store = stores.get(db)
  if (!store) {
    store = createStore(db, keys)
    stores.set(db, store)
  }
  return store
}
