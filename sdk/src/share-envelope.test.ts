/** The envelope format is stable, in Node and in a real browser, and only link and passphrase together open an envelope. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import fc from 'fast-check'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { anyCharacter } from '../../test/any-character.ts'
import { browserOptions } from '../../test/browser-program.ts'
import { times } from '../../test/tier.ts'
import {
  deriveShareKeys,
  fromBase64Url,
  open,
  type ShareContent,
  seal,
  sealWith,
  toBase64Url,
  unlock,
} from './share-envelope.ts'

const secret = new Uint8Array(32).fill(0x11)
const nonce = new Uint8Array(12).fill(0x33)
const content: ShareContent = { t: 'text', v: 'hunter2' }
const pairs: ShareContent = { t: 'kv', items: [{ name: 'DB_URL', value: 'postgres://…\n' }] }
const fragment = '#1.ERERERERERERERERERERERERERERERERERERERERERH2JJz4'
const salt = '9f23888b94aa1117d1b377d897d822a9'
const linkProof = '33b912082eb1a63d466553dd9eee90dbb102de863daff44407071f9a5fef7a0b'

type Vector = {
  readonly passphrase: string | undefined
  readonly passProof: string | undefined
  readonly encKey: string
  readonly commit: string
  /** SHA-256 of ciphertext and tag, without the nonce. */
  readonly sealedHash: string
}
const vectors: [string, Vector][] = [
  [
    'no passphrase',
    {
      passphrase: undefined,
      passProof: undefined,
      encKey: '935441475e5c8413fcdaca61a00cd772eaa3d008dac8f3aa7c1e43591222e4c3',
      commit: '35332be247dee1d15603e1ac820a2b0ecfa949e793c7986c5dfa168e9faa0942',
      sealedHash: '2aa3334ecc999e6958e5da31de57a9369d2031634fa2ddb463a3ae7974bedb43',
    },
  ],
  [
    'a passphrase',
    {
      passphrase: 'correct horse',
      passProof: '2cab8bffecaa86f726ed147f7ba1f3691b1c19fa1235a4040d3e5d86de65b544',
      encKey: '6bdeed02d00f5928ec75df27bd37faee889e2758c7f69831c2ba5d986e24b8b0',
      commit: 'd4eb4c64498c811d75b702ea6dde9c2966ae9015b7317497440acffa4f23b042',
      sealedHash: '1078074c5ae386ff4937aa700bddbd682d1d63da2a02f242fc265036b48a6320',
    },
  ],
]

const hex = (bytes: Uint8Array | undefined) => bytes && Buffer.from(bytes).toString('hex')
const fromHex = (text: string) => Buffer.from(text, 'hex').toString('base64url')
const hashOf = (text: string | undefined) =>
  createHash('sha256')
    .update(Buffer.from(text ?? '', 'base64url'))
    .digest('base64url')
const sealedHash = (ciphertext: string) =>
  createHash('sha256').update(Buffer.from(ciphertext, 'base64url').subarray(12)).digest('hex')

describe('the vectors of version 1', () => {
  test.each(vectors)('with %s', async (_name, vector) => {
    const keys = await deriveShareKeys(secret, vector.passphrase)
    expect(hex(keys.salt)).toBe(salt)
    expect(hex(keys.linkProof)).toBe(linkProof)
    expect(hex(keys.passProof)).toBe(vector.passProof)
    expect(hex(keys.encKey)).toBe(vector.encKey)
    expect(hex(keys.commit)).toBe(vector.commit)
    const sealed = await sealWith(secret, nonce, content, vector.passphrase)
    expect(sealed.fragment).toBe(fragment)
    expect(sealedHash(sealed.envelope.ciphertext)).toBe(vector.sealedHash)
    expect(sealed.envelope.commit).toBe(fromHex(vector.commit))
    expect(sealed.envelope.linkProofHash).toBe(hashOf(fromHex(linkProof)))
    expect(sealed.envelope.passProofHash).toBe(vector.passProof && hashOf(fromHex(vector.passProof)))
    const { ciphertext, commit } = sealed.envelope
    expect(await open(fragment, ciphertext, commit, vector.passphrase)).toEqual(content)
  })
})

describe('an envelope', () => {
  test('opens with its link, and its proofs match the hashes that the server holds', async () => {
    const { envelope, fragment } = await seal(pairs, 'passphrase')
    const reader = await unlock(fragment, 'passphrase')
    expect(await reader.open(envelope.ciphertext, envelope.commit)).toEqual(pairs)
    expect(hashOf(reader.linkProof)).toBe(envelope.linkProofHash)
    expect(hashOf(reader.passProof)).toBe(envelope.passProofHash)
  })

  test('differs each time, and does not reveal the length of its content', async () => {
    const made = await Promise.all(['a', 'b', 'x'.repeat(200)].map((v) => seal({ t: 'text', v })))
    expect(new Set(made.map(({ fragment }) => fragment)).size).toBe(3)
    expect(new Set(made.map(({ envelope }) => envelope.ciphertext)).size).toBe(3)
    expect(new Set(made.map(({ envelope }) => envelope.ciphertext.length)).size).toBe(1)
  })

  test('can contain any text', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: anyCharacter, maxLength: 2_000 }), async (v) => {
        const { envelope, fragment } = await seal({ t: 'text', v })
        expect(await open(fragment, envelope.ciphertext, envelope.commit)).toEqual({ t: 'text', v })
      }),
      { numRuns: times(25, 1_000) },
    )
  })

  test('can contain 512 KiB and not one byte more', async () => {
    const frame = JSON.stringify({ t: 'text', v: '' }).length + 4
    const largest = 'x'.repeat(512 * 1024 - frame)
    const { envelope, fragment } = await seal({ t: 'text', v: largest })
    expect(await open(fragment, envelope.ciphertext, envelope.commit)).toEqual({ t: 'text', v: largest })
    await expect(seal({ t: 'text', v: `${largest}x` })).rejects.toMatchObject({ problem: 'too-large' })
  })

  test('opens with a passphrase in another Unicode normal form', async () => {
    const { envelope, fragment } = await seal(content, 'caf\u00e9 \ufb01')
    expect(await open(fragment, envelope.ciphertext, envelope.commit, 'cafe\u0301 fi')).toEqual(content)
  })

  test('does not open with a wrong, a missing or a superfluous passphrase', async () => {
    const locked = await seal(content, 'right')
    for (const passphrase of ['wrong', 'Right', 'right ', undefined]) {
      const opened = open(locked.fragment, locked.envelope.ciphertext, locked.envelope.commit, passphrase)
      await expect(opened).rejects.toMatchObject({ problem: 'wrong-key' })
    }
    const free = await seal(content)
    const opened = open(free.fragment, free.envelope.ciphertext, free.envelope.commit, 'right')
    await expect(opened).rejects.toMatchObject({ problem: 'wrong-key' })
  })

  test('does not open with the link, the commitment or the ciphertext of another envelope', async () => {
    const [one, other] = [await seal(content), await seal(content)]
    for (const [link, ciphertext, commit, problem] of [
      [other.fragment, one.envelope.ciphertext, one.envelope.commit, 'wrong-key'],
      [one.fragment, one.envelope.ciphertext, other.envelope.commit, 'wrong-key'],
      [one.fragment, other.envelope.ciphertext, one.envelope.commit, 'damaged-content'],
    ] as const) {
      await expect(open(link, ciphertext, commit)).rejects.toMatchObject({ problem })
    }
  })

  test('does not open when the ciphertext is changed', async () => {
    const { envelope, fragment } = await sealWith(secret, nonce, content)
    const bytes = Buffer.from(envelope.ciphertext, 'base64url')
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed.writeUInt8(changed.readUInt8(at) ^ (1 << (at % 8)), at)
      const opened = open(fragment, changed.toString('base64url'), envelope.commit)
      await expect(opened, `byte ${at}`).rejects.toMatchObject({ problem: 'damaged-content' })
    }
    for (const text of ['', 'AAAA', envelope.ciphertext.slice(0, -1), `${envelope.ciphertext}A`, 'not base64!']) {
      await expect(open(fragment, text, envelope.commit)).rejects.toMatchObject({ problem: 'damaged-content' })
    }
  })
})

test('a damaged link is detected before any request', async () => {
  const other = (char: string) => (char === 'A' ? 'B' : 'A')
  const mangled = [...fragment].map((char, at) => fragment.slice(0, at) + other(char) + fragment.slice(at + 1))
  const cut = [...fragment].map((_char, at) => fragment.slice(0, at))
  const more = [`${fragment}A`, `${fragment}=`, ` ${fragment}`, `${fragment} `, fragment.toUpperCase(), '#2.', '']
  for (const link of [...mangled, ...cut, ...more]) {
    await expect(unlock(link), link).rejects.toMatchObject({ problem: 'damaged-link' })
  }
})

test('base64url has exactly one encoding of the same bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (made) => {
      const bytes = Uint8Array.from(made)
      const text = toBase64Url(bytes)
      expect(text).toBe(Buffer.from(bytes).toString('base64url'))
      expect(fromBase64Url(text)).toEqual(bytes)
    }),
    { numRuns: times(200, 2_000) },
  )
  for (const text of ['A', 'AB', 'AAB', 'AA==', 'A+', 'A/', 'A A']) expect(fromBase64Url(text), text).toBeUndefined()
})

describe('in a real browser', () => {
  let server: Server
  let browser: Browser
  let page: Page

  beforeAll(async () => {
    const source = readFileSync(join(import.meta.dirname, 'share-envelope.ts'), 'utf8')
    const script = stripTypeScriptTypes(source)
    server = createServer(({ url }, response) => {
      const isScript = url === '/share-envelope.js'
      response.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html' })
      response.end(isScript ? script : '<!doctype html><title>share</title>')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const port = typeof address === 'object' && address ? address.port : 0
    browser = await chromium.launch(await browserOptions())
    page = await browser.newPage()
    await page.goto(`http://127.0.0.1:${port}/`)
    // The page imports the same file that Node has loaded above.
    await page.addScriptTag({
      type: 'module',
      content: `import * as envelope from '/share-envelope.js'; globalThis.envelope = envelope`,
    })
    await page.waitForFunction('globalThis.envelope !== undefined')
  })
  afterAll(async () => {
    await browser.close()
    await new Promise((resolve) => server.close(resolve))
  })

  /** Calls a function of the module inside the page. */
  const call = <Result>(name: string, ...args: readonly unknown[]) =>
    page.evaluate<Result>(`envelope[${JSON.stringify(name)}](...${JSON.stringify(args)})`)

  test.each(vectors)('the vector with %s matches', async (_name, vector) => {
    const given = JSON.stringify({ content, passphrase: vector.passphrase })
    const made = await page.evaluate<{
      keys: Record<string, string>
      sealed: Awaited<ReturnType<typeof seal>>
    }>(`(async ({ content, passphrase }) => {
      const [secret, nonce] = [new Uint8Array(32).fill(0x11), new Uint8Array(12).fill(0x33)]
      const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
      const keys = await envelope.deriveShareKeys(secret, passphrase)
      const named = Object.entries(keys).filter(([, bytes]) => bytes).map(([name, bytes]) => [name, hex(bytes)])
      return { keys: Object.fromEntries(named), sealed: await envelope.sealWith(secret, nonce, content, passphrase) }
    })(${given})`)
    const { passProof, encKey, commit } = vector
    expect(made.keys).toEqual({ salt, linkProof, encKey, commit, ...(passProof !== undefined && { passProof }) })
    expect(made.sealed.fragment).toBe(fragment)
    expect(sealedHash(made.sealed.envelope.ciphertext)).toBe(vector.sealedHash)
    expect(made.sealed).toEqual(await sealWith(secret, nonce, content, vector.passphrase))
  })

  test.each([undefined, 'caf\u00e9'])(
    'Node and the browser open the envelopes of each other, with passphrase %s',
    async (passphrase) => {
      const given = passphrase === undefined ? [] : [passphrase]
      const there = await call<Awaited<ReturnType<typeof seal>>>('seal', pairs, ...given)
      expect(await open(there.fragment, there.envelope.ciphertext, there.envelope.commit, passphrase)).toEqual(pairs)
      const here = await seal(pairs, passphrase)
      const { ciphertext, commit } = here.envelope
      expect(await call('open', here.fragment, ciphertext, commit, ...given)).toEqual(pairs)
    },
  )

  test('the errors for a damaged link and a wrong passphrase differ', async () => {
    const { envelope, fragment } = await seal(content, 'right')
    const problem = (...args: readonly string[]) =>
      page.evaluate(`envelope.open(...${JSON.stringify(args)}).catch((error) => error.problem)`)
    expect(await problem(fragment.slice(0, -1), envelope.ciphertext, envelope.commit)).toBe('damaged-link')
    expect(await problem(fragment, envelope.ciphertext, envelope.commit, 'wrong')).toBe('wrong-key')
  })
})
