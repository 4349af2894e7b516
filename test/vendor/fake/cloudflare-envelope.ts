/** The common part of Cloudflare's API: envelope, tokens and account. */
import type { FakeAnswer, FakeRequest } from '../fake.ts'

export const accountId = '023e105f4ecef8ad9ca31a8372d0c353'
/** A user token, and an account token, which is valid only below its account. */
export const userToken = 'cfut_user-token-of-the-fake-000000000000'
export const accountToken = 'cfat_account-token-of-the-fake-00000000'

export const fine = (result: unknown, more: object = {}): FakeAnswer => ({
  status: 200,
  body: { success: true, errors: [], messages: [], result, ...more },
})

export const refuse = (status: number, code: number, message: string): FakeAnswer => ({
  status,
  body: { success: false, errors: [{ code, message }], messages: [], result: null },
})

/** The response to requests outside the product itself; otherwise undefined. */
export function answerCommon({ method, path, headers }: FakeRequest): FakeAnswer | undefined {
  const token = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1]
  const verify = method === 'GET' && path.endsWith('/tokens/verify')
  if (token !== userToken && token !== accountToken) {
    return verify ? refuse(401, 1000, 'Invalid API Token') : refuse(403, 9109, 'Invalid access token')
  }
  if (verify) {
    const isKnown = token === userToken ? path === '/client/v4/user/tokens/verify' : path.includes('/accounts/')
    return isKnown ? fine({ id: 'f'.repeat(32), status: 'active' }) : refuse(401, 1000, 'Invalid API Token')
  }
  if (!path.startsWith(`/client/v4/accounts/${accountId}`)) {
    return refuse(404, 7003, `Could not route to ${path}, perhaps your object identifier is invalid?`)
  }
  if (method === 'GET' && path === `/client/v4/accounts/${accountId}`) return fine({ id: accountId, name: 'Example' })
  return undefined
}
