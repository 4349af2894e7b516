/** Exchange of an external issuer's token for a JWT, with the issuer's keys already cached. */
import { createServer } from 'node:http'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { openCase, type Plan, readers } from './case.ts'
import { apiOf } from './seed.ts'

export const federate: Plan = {
  name: 'exchange an outside token (OIDC)',
  isDurable: true,
  async open(world) {
    const issuer = await startIssuer()
    const identity = { name: 'bench', issuer: issuer.url, audience: 'coffer', subject: 'bench' }
    const api = apiOf(world.service, world.seeded.session)
    await api.oidc.create({ ws: 'main' }, { ...identity, permission: 'read', scope: { all: true } })
    const body = JSON.stringify({ token: await issuer.sign(), workspaceId: 'main' })
    const load = { path: '/v1/auth/oidc/exchange', method: 'POST', body, connections: readers }
    return { ...(await openCase(world, this.name, load)), close: issuer.stop }
  },
}

async function startIssuer() {
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
