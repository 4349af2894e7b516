/** Tokens of service accounts in the authorisation matrix. */
import { expect } from 'vitest'
import { everything } from '../server/src/domain/scope.ts'
import { exchange, type TestUser } from './harness.ts'
import type { Stage } from './matrix-caller.ts'
import type { Caller } from './matrix-right.ts'
import { createServiceAccount, createServiceToken } from './service-account.ts'
import { scopeOf } from './world.ts'

/** Made with the grants of an admin of everything, which are narrowed afterwards. */
export async function createServiceCallers(stage: Stage, owner: TestUser, others: string): Promise<Caller[]> {
  const { service, world } = stage
  const result: Caller[] = []
  for (const role of ['admin', 'developer', 'member'] as const) {
    for (const scopeName of ['all', 'right project', 'right environment', 'wrong team'] as const) {
      const scope = scopeOf(world, scopeName)
      const name = `${role} account for ${scopeName}`
      const grants = [{ role: 'admin', scope: { all: true } }] as const
      const account = await createServiceAccount(service, owner.session, { name, grants: [...grants] })
      const own = (await createServiceToken(service, owner.session, account.id)).id
      for (const permission of ['read', 'read-write'] as const) {
        const token = await createServiceToken(service, owner.session, account.id, { permission })
        const tokens = { itself: token.id, own, others }
        const rest = { isAlive: true, permission, grants: [{ role, scope }], limit: everything, tokens } as const
        const jwt = await exchange(service, token.token)
        result.push({ ...rest, name: `${permission} token of ${name}`, kind: 'token', options: { token: token.token } })
        result.push({ ...rest, name: `JWT of ${permission} token of ${name}`, kind: 'jwt', options: { token: jwt } })
      }
      const path = `/v1/workspace/main/service-account/${account.id}`
      const narrowed = { token: owner.session, body: { grants: [{ role, scope }] } }
      const { status, text } = await service.call('PUT', path, narrowed)
      expect(status, text).toBe(200)
    }
  }
  return result
}
