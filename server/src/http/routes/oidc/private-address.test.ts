/** Fetching the keys of an issuer never connects to a private address that the operator did not allow. */
import dns from 'node:dns/promises'
import { syncBuiltinESMExports } from 'node:module'
import { createServer, type Server } from 'node:net'
import { SignJWT } from 'jose'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { registerOwner, startService, type TestService, type TestUser } from '../../../../../test/harness.ts'
import {
  createIdentity,
  createKey,
  federate,
  signatureProblem,
  startIssuer,
  tryFederation,
} from '../../../../../test/issuer.ts'

const minuteMs = 60_000

/** A token that names this issuer; its signature is never checked. */
async function tokenOf(iss: string): Promise<string> {
  const seconds = Math.floor(Date.now() / 1000)
  const claims = { iss, aud: 'coffer', sub: 'somebody', iat: seconds, exp: seconds + 300 }
  const { privateKey } = await createKey('ES256', 'first')
  return new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: 'first' }).sign(privateKey)
}

describe('no request goes to a private address', () => {
  let strict: TestService
  let strictOwner: TestUser
  let canary: Server
  let port = 0
  let connections = 0

  beforeAll(async () => {
    strict = await startService({ COFFER_OUTBOUND_ALLOW: '127.0.0.1' })
    strictOwner = await registerOwner(strict)
    canary = createServer((socket) => {
      connections++
      socket.destroy()
    })
    // Listens on every address of the machine, including all forms of loopback.
    await new Promise<void>((resolve) => void canary.listen(0, '::', resolve))
    const address = canary.address()
    port = typeof address === 'object' && address ? address.port : 0
  })
  afterAll(async () => {
    await strict.stop()
    await new Promise((resolve) => canary.close(resolve))
  })
  beforeEach(() => {
    connections = 0
  })

  async function refuse(on: TestService, session: string, iss: string): Promise<string> {
    const { id } = await createIdentity(on, session, { issuer: iss, subject: 'somebody' })
    const token = await tokenOf(iss)
    expect((await tryFederation(on, token)).status).toBe(401)
    return signatureProblem(on, session, id, token)
  }

  test.each([
    'https://127.0.0.2:PORT',
    'https://127.0.0.2.:PORT',
    'http://127.0.0.2:PORT',
    'https://2130706434:PORT',
    'https://0x7f000002:PORT',
    'https://0177.0.0.02:PORT',
    'https://127.2:PORT',
    'https://[::1]:PORT',
    'https://[0:0:0:0:0:0:0:1]:PORT',
    'https://[::ffff:127.0.0.2]:PORT',
    'https://[::ffff:7f00:2]:PORT',
    'https://[64:ff9b::127.0.0.2]:PORT',
    'https://0.0.0.0:PORT',
    'https://[::]:PORT',
    'https://１２７.0.0.2:PORT',
    'https://169.254.169.254',
    'http://169.254.169.254/latest',
    'https://2852039166',
    'https://[fd00:ec2::254]',
    'https://[::ffff:169.254.169.254]',
    'https://10.0.0.1',
    'https://172.16.0.1',
    'https://192.168.1.1',
    'https://100.64.0.1',
    'https://[fe80::1]',
    'https://[fc00::1]',
    'https://224.0.0.1',
    'https://255.255.255.255',
  ])('%s', async (spelling) => {
    const iss = spelling.replace('PORT', String(port))
    expect(await refuse(strict, strictOwner.session, iss)).toMatch(/refused: it has a private or reserved address/)
    expect(connections).toBe(0)
  })

  test('a host that the operator lists is allowed on any port and over plain http, its neighbours are not', async () => {
    const [listed, neighbour] = await Promise.all(
      ['127.0.0.1', '127.0.0.2'].map((host) => startIssuer(() => strict.app.services.now(), { host })),
    )
    if (!listed || !neighbour) throw new Error('two issuers are needed')
    for (const { url } of [listed, neighbour]) {
      await createIdentity(strict, strictOwner.session, { issuer: url, subject: 'somebody' })
    }
    await federate(strict, await listed.sign())
    expect((await tryFederation(strict, await neighbour.sign())).status).toBe(401)
    expect(neighbour.requests).toEqual([])
    await listed.stop()
    await neighbour.stop()
  })

  test.each(['redirects to a private address', 'has its keys at a private address'])(
    'an issuer that %s is refused',
    async (what) => {
      const luring = await startIssuer(() => strict.app.services.now())
      const target = `http://127.0.0.2:${port}/keys`
      luring.answer = (_request, response) => {
        if (what === 'redirects to a private address') response.writeHead(302, { location: target }).end()
        else response.writeHead(200).end(JSON.stringify({ issuer: luring.url, jwks_uri: target }))
        return true
      }
      expect(await refuse(strict, strictOwner.session, luring.url)).toMatch(/redirect|private or reserved/)
      expect(luring.requests).toHaveLength(1)
      expect(connections).toBe(0)
      await luring.stop()
    },
  )

  describe('through a host name', () => {
    const { lookup } = dns
    let answers: string[][] = []
    let asked: string[] = []

    beforeEach(() => {
      asked = []
      const fake = async (hostname: string) => {
        asked.push(hostname)
        const addresses = answers.length > 1 ? answers.shift() : answers[0]
        return (addresses ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
      }
      Object.assign(dns, { lookup: fake })
      syncBuiltinESMExports()
    })
    afterEach(() => {
      Object.assign(dns, { lookup })
      syncBuiltinESMExports()
    })

    test.each([
      ['loopback', ['127.0.0.2']],
      ['loopback in IPv6', ['::1']],
      ['mapped loopback', ['::ffff:127.0.0.2']],
      ['the cloud’s metadata', ['169.254.169.254']],
      ['a private address among public ones', ['93.184.216.34', '10.0.0.1', '2606:2800:220:1::1']],
    ])('resolving to %s', async (what, addresses) => {
      answers = [addresses]
      const iss = `https://${what.replaceAll(/[^a-z]/gi, '-')}.example.test:${port}`
      expect(await refuse(strict, strictOwner.session, iss)).toMatch(/refused: it has a private or reserved address/)
      expect(asked.length).toBeGreaterThan(0)
      expect(connections).toBe(0)
    })

    test('resolved once per fetch, so that a changed address is never connected to', async () => {
      // Public on the first lookup; a second lookup before connecting would reach the canary.
      answers = [['93.184.216.34'], ['127.0.0.2']]
      const iss = 'https://rebinding.example.test'
      const { id } = await createIdentity(strict, strictOwner.session, { issuer: iss, subject: 'somebody' })
      const token = await tokenOf(iss)
      expect((await tryFederation(strict, token)).status).toBe(401)
      expect(asked).toEqual(['rebinding.example.test'])
      // The next fetch resolves the name again, and gets the private address.
      strict.clock.offsetMs += minuteMs
      expect(await signatureProblem(strict, strictOwner.session, id, token)).toMatch(/private or reserved/)
      expect(asked).toHaveLength(2)
      expect(connections).toBe(0)
    })

    test('unless the operator lists this very name', async () => {
      const open = await startService({ COFFER_OUTBOUND_ALLOW: 'issuer.internal.example.test' })
      const { session } = await registerOwner(open)
      answers = [['127.0.0.1']]
      const real = await startIssuer(() => open.app.services.now())
      const named = real.url.replace('127.0.0.1', 'issuer.internal.example.test')
      const other = real.url.replace('127.0.0.1', 'other.internal.example.test')
      real.answer = (request, response) => {
        if (request.url === '/keys') return false
        response.end(JSON.stringify({ issuer: named, jwks_uri: `${named}/keys` }))
        return true
      }
      for (const url of [named, other]) await createIdentity(open, session, { issuer: url, subject: 'somebody' })
      await federate(open, await real.sign({ iss: named }))
      const before = real.requests.length
      expect((await tryFederation(open, await real.sign({ iss: other }))).status).toBe(401)
      expect(real.requests).toHaveLength(before)
      await real.stop()
      await open.stop()
    })
  })
})
