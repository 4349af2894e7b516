/** A real OIDC issuer on loopback: discovery and keys over HTTP, tokens by jose. Tests can change its responses. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { IdentityVerdict } from '@coffer/contract/oidc'
import { type CryptoKey, exportJWK, type GenerateKeyPairOptions, generateKeyPair, type JWK, SignJWT } from 'jose'
import { expect } from 'vitest'
import type { TestService } from './harness.ts'

export const loopbackAllowed = { COFFER_OUTBOUND_ALLOW: '127.0.0.1' }

export type SigningKey = { readonly privateKey: CryptoKey; readonly publicKey: CryptoKey; readonly jwk: JWK }
export type Claims = Readonly<Record<string, unknown>>

export type TestIssuer = {
  readonly url: string
  /** Requested paths, in order. */
  readonly requests: string[]
  /** The served key set. */
  readonly keys: JWK[]
  readonly key: SigningKey
  /** Overrides the response if it returns true. */
  answer: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined
  /** A token signed by the issuer's key; undefined claims are omitted. */
  sign(claims?: Claims, header?: Claims, key?: SigningKey): Promise<string>
  stop(): Promise<void>
}

export async function createKey(alg: string, kid: string, options: GenerateKeyPairOptions = {}): Promise<SigningKey> {
  const pair = await generateKeyPair(alg, { extractable: true, ...options })
  return { ...pair, jwk: { ...(await exportJWK(pair.publicKey)), kid, alg, use: 'sig' } }
}

export async function startIssuer(
  now: () => number = Date.now,
  { path = '', host = '127.0.0.1' }: { path?: string; host?: string } = {},
): Promise<TestIssuer> {
  const key = await createKey('RS256', 'first')
  const server = createServer((request, response) => {
    issuer.requests.push(request.url ?? '')
    if (issuer.answer?.(request, response)) return
    const json = (body: unknown) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    if (request.url === `${path.replace(/\/$/, '')}/.well-known/openid-configuration`) {
      json({ issuer: issuer.url, jwks_uri: `${origin}/keys` })
    } else if (request.url === '/keys') json({ keys: issuer.keys })
    else response.writeHead(404).end()
  })
  const origin = `http://${host}:${await listenOnNewPort(server, host)}`
  const issuer: TestIssuer = {
    url: origin + path,
    requests: [],
    keys: [key.jwk],
    key,
    answer: undefined,
    sign(claims = {}, header = {}, by = key) {
      const seconds = Math.floor(now() / 1000)
      const all = { iss: issuer.url, aud: 'coffer', sub: 'somebody', iat: seconds, exp: seconds + 300, ...claims }
      const head = { alg: by.jwk.alg ?? '', kid: by.jwk.kid ?? '', typ: 'JWT', ...header }
      return new SignJWT(withoutUndefined(all)).setProtectedHeader(withoutUndefined(head)).sign(by.privateKey)
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return issuer
}

const usedPorts = new Set<number>()

/** Never reuses a port: the service may have cached the keys of the earlier issuer. */
async function listenOnNewPort(server: Server, host: string): Promise<number> {
  await new Promise<void>((resolve) => void server.listen(0, host, resolve))
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  if (!usedPorts.has(port)) {
    usedPorts.add(port)
    return port
  }
  await new Promise((resolve) => server.close(resolve))
  return listenOnNewPort(server, host)
}

const withoutUndefined = <Fields extends object>(fields: Fields): Fields => JSON.parse(JSON.stringify(fields))

export type TestIdentity = { readonly id: string; readonly name: string; readonly lastUsedAt: string | null }

export async function createIdentity(
  service: TestService,
  token: string,
  body: Readonly<Record<string, unknown>>,
  workspace = 'main',
): Promise<TestIdentity> {
  const answer = await service.call<TestIdentity>('POST', `/v1/workspace/${workspace}/oidc`, {
    token,
    body: { name: 'ci', audience: 'coffer', permission: 'read', scope: { all: true }, ...body },
  })
  expect(answer.status, answer.text).toBe(201)
  return answer.body
}

export function tryFederation(service: TestService, token: string, workspaceId = 'main') {
  const body = { token, workspaceId }
  return service.call<{ accessToken: string }>('POST', '/v1/auth/oidc/exchange', { body })
}

export async function federate(service: TestService, token: string, workspaceId = 'main'): Promise<string> {
  const { status, text, body } = await tryFederation(service, token, workspaceId)
  expect(status, text).toBe(200)
  return body.accessToken
}

/** The reason that an admin sees when the signature of a token could not be verified; empty if it could. */
export async function signatureProblem(
  service: TestService,
  session: string,
  identityId: string,
  token: string,
): Promise<string> {
  const path = `/v1/workspace/main/oidc/${identityId}/test`
  const { body } = await service.call<IdentityVerdict>('POST', path, { token: session, body: { token } })
  const check = body.checks.find((one) => one.check === 'signature')
  return check?.ok === false ? check.actual : ''
}
