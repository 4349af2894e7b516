/**
 * A certified OpenID provider as issuer: its own discovery, keys, access tokens and ID tokens are accepted, and no
 * others.
 */
import { createHash, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Me } from '@coffer/contract/me'
import { exportJWK } from 'jose'
import { Provider } from 'oidc-provider'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import { createIdentity, createKey, federate, loopbackAllowed, tryFederation } from '../../../../../test/issuer.ts'

const algorithms = ['RS256', 'PS256', 'ES256', 'EdDSA'] as const
const audience = 'https://coffer.example.com'

let service: TestService
let owner: TestUser
let server: Server
let issuer = ''

beforeAll(async () => {
  service = await startService(loopbackAllowed)
  owner = await registerOwner(service)
  server = createServer((request, response) => void handle(request, response))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  issuer = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
  const provider = new Provider(issuer, await configuration())
  const callback = provider.callback()

  /** Signs in and consents at once, in place of the person at the browser. */
  async function interact(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { prompt, params } = await provider.interactionDetails(request, response)
    if (prompt.name === 'login') {
      await provider.interactionFinished(request, response, { login: { accountId: 'alice' } })
      return
    }
    const grant = new provider.Grant({ accountId: 'alice', clientId: params.client_id })
    grant.addOIDCScope('openid')
    await provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } })
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await (request.url?.startsWith('/interaction/') ? interact(request, response) : callback(request, response))
  }
})
afterAll(async () => {
  await service.stop()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

async function configuration(): Promise<Record<string, unknown>> {
  const keys = await Promise.all(
    algorithms.map(async (alg) => {
      const { privateKey, jwk } = await createKey(alg, `key-${alg}`)
      return { ...(await exportJWK(privateKey)), kid: jwk.kid, alg, use: 'sig' }
    }),
  )
  const machine = { grant_types: ['client_credentials'], response_types: [], redirect_uris: [] }
  return {
    jwks: { keys },
    cookies: { keys: ['a key of the test'] },
    enabledJWA: { idTokenSigningAlgValues: algorithms },
    clients: [
      ...algorithms.map((alg) => ({ client_id: `machine-${alg}`, client_secret: 'word', ...machine })),
      {
        client_id: 'dashboard',
        token_endpoint_auth_method: 'none',
        redirect_uris: ['http://127.0.0.1/callback'],
        application_type: 'native',
        id_token_signed_response_alg: 'ES256',
      },
    ],
    findAccount: (_ctx: unknown, accountId: string) => ({ accountId, claims: () => ({ sub: accountId }) }),
    interactions: { url: (_ctx: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    ttl: { AccessToken: 300, ClientCredentials: 300, IdToken: 300, Interaction: 300, Session: 300, Grant: 300 },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_ctx: unknown, resource: string, { clientId }: { clientId: string }) => ({
          scope: 'deploy',
          audience: resource,
          accessTokenFormat: resource === 'https://opaque.example.com' ? 'opaque' : 'jwt',
          jwt: { sign: { alg: clientId.replace('machine-', '') } },
        }),
      },
    },
  }
}

async function accessToken(clientId: string, resource = audience): Promise<string> {
  const response = await fetch(`${issuer}/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${clientId}:word`).toString('base64')}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'deploy', resource }),
  })
  const answer = (await response.json()) as { access_token?: string }
  expect(response.status, JSON.stringify(answer)).toBe(200)
  return answer.access_token ?? ''
}

/** The authorization code flow of a person, in a browser with cookies. */
async function idToken(): Promise<string> {
  const verifier = randomBytes(32).toString('base64url')
  const query = new URLSearchParams({
    client_id: 'dashboard',
    response_type: 'code',
    scope: 'openid',
    redirect_uri: 'http://127.0.0.1/callback',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  })
  const cookies = new Map<string, string>()
  let url = `${issuer}/auth?${query}`
  while (url.startsWith(issuer)) {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ')
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
    for (const line of response.headers.getSetCookie()) {
      const [name = '', value = ''] = line.split(';')[0]?.split('=', 2) ?? []
      cookies.set(name, value)
    }
    expect([302, 303], await response.text()).toContain(response.status)
    url = new URL(response.headers.get('location') ?? '', issuer).href
  }
  const response = await fetch(`${issuer}/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: 'dashboard',
      code: new URL(url).searchParams.get('code') ?? '',
      redirect_uri: 'http://127.0.0.1/callback',
      code_verifier: verifier,
    }),
  })
  const answer = (await response.json()) as { id_token?: string }
  expect(response.status, JSON.stringify(answer)).toBe(200)
  return answer.id_token ?? ''
}

test.each(algorithms)('an access token signed with %s for our audience is accepted', async (alg) => {
  const name = `machine ${alg}`
  const rules = { subject: `machine-${alg}`, claims: { client_id: 'machine-*', scope: 'deploy' } }
  await createIdentity(service, owner.session, { name, issuer, audience, ...rules })
  const jwt = await federate(service, await accessToken(`machine-${alg}`))
  const { body } = await service.call<Me>('GET', '/v1/me', { token: jwt })
  expect(body).toMatchObject({ name, credential: { type: 'oidc', permission: 'read' } })
})

test('an ID token of a person is accepted if it is the expected audience', async () => {
  await createIdentity(service, owner.session, { name: 'alice', issuer, audience: 'dashboard', subject: 'alice' })
  const jwt = await federate(service, await idToken())
  expect((await service.call<Me>('GET', '/v1/me', { token: jwt })).body).toMatchObject({ name: 'alice' })
})

test('a token for another audience and an opaque token are refused', async () => {
  for (const resource of ['https://other.example.com', 'https://opaque.example.com']) {
    expect((await tryFederation(service, await accessToken('machine-RS256', resource))).status).toBe(401)
  }
})
