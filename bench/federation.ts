/** The exchange of an outside issuer's token, its keys at hand, beside the exchange of an API token, in turns. */
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { type Running, startService } from './process.ts'
import { call, seed } from './seed.ts'

export type Federation = { readonly federated: number; readonly byToken: number; readonly ratio: number }

const connections = 16

export async function measureFederation(seconds: number, rounds: number): Promise<Federation> {
  const dataDir = mkdtempSync(join(tmpdir(), 'coffer-federation-'))
  const issuer = await startIssuer()
  const service = await startService(dataDir, { COFFER_OUTBOUND_ALLOW: '127.0.0.1' })
  try {
    const { session, token } = await seed(service)
    const identity = { name: 'bench', issuer: issuer.url, audience: 'coffer', subject: 'bench' }
    const rights = { permission: 'read', scope: { all: true } }
    await call(service, 'POST', '/v1/workspace/main/oidc', session, { ...identity, ...rights })
    const body = { token: await issuer.sign(), workspaceId: 'main' }
    const federate = () => call(service, 'POST', '/v1/auth/oidc/exchange', undefined, body)
    const exchange = () => call(service, 'POST', '/v1/auth/exchange', token)
    const results: Federation[] = []
    // The first round warms both up.
    for (let round = 0; round <= rounds; round++) {
      const byToken = await perSecond(exchange, seconds)
      const federated = await perSecond(federate, seconds)
      if (round > 0) results.push({ byToken, federated, ratio: federated / byToken })
    }
    const [middle] = results.toSorted((a, b) => a.ratio - b.ratio).slice(Math.floor(results.length / 2))
    return middle ?? { byToken: Number.NaN, federated: Number.NaN, ratio: Number.NaN }
  } finally {
    await service.stop()
    issuer.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

/** Both are asked by the same client, which has its share in either figure: the ratio counts. */
async function perSecond(ask: () => Promise<unknown>, seconds: number): Promise<number> {
  const startedAt = performance.now()
  let count = 0
  async function askAgain(): Promise<void> {
    while (performance.now() - startedAt < seconds * 1_000) {
      await ask()
      count++
    }
  }
  await Promise.all(Array.from({ length: connections }, askAgain))
  return Math.round((count * 1_000) / (performance.now() - startedAt))
}

type Issuer = Pick<Running, 'url'> & { sign(): Promise<string>; stop(): void }

async function startIssuer(): Promise<Issuer> {
  const { privateKey, publicKey } = await generateKeyPair('RS256')
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'bench', alg: 'RS256' }]
  const server = createServer((request, response) => {
    response.end(JSON.stringify(request.url === '/keys' ? { keys } : { issuer: url, jwks_uri: `${url}/keys` }))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
  return {
    url,
    sign: () =>
      new SignJWT({ sub: 'bench' })
        .setProtectedHeader({ alg: 'RS256', kid: 'bench' })
        .setIssuer(url)
        .setAudience('coffer')
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(privateKey),
    stop: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
