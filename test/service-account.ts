/** Service accounts and their tokens, through the API. */
import type { NewServiceAccount, ServiceAccount } from '@coffer/contract/service-account'
import type { IssuedToken, NewToken } from '@coffer/contract/token'
import { expect } from 'vitest'
import type { TestService } from './harness.ts'

/** A developer of everything, unless `body` says otherwise. */
export async function createServiceAccount(
  service: TestService,
  session: string,
  body: Partial<NewServiceAccount> = {},
  workspace = 'main',
): Promise<ServiceAccount> {
  const answer = await service.call<ServiceAccount>('POST', `/v1/workspace/${workspace}/service-account`, {
    token: session,
    body: { name: 'deploy', grants: [{ role: 'developer', scope: { all: true } }], ...body },
  })
  expect(answer.status, answer.text).toBe(201)
  return answer.body
}

export async function createServiceToken(
  service: TestService,
  session: string,
  accountId: string,
  body: Partial<NewToken> = {},
  workspace = 'main',
): Promise<IssuedToken> {
  const path = `/v1/workspace/${workspace}/service-account/${accountId}/tokens`
  const answer = await service.call<IssuedToken>('POST', path, {
    token: session,
    body: { name: 'ci', permission: 'read-write', scope: { all: true }, expiresIn: '30d', ...body },
  })
  expect(answer.status, answer.text).toBe(201)
  return answer.body
}
