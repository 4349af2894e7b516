/** A split key at a real terminal: shares are shown once, typed without an echo, and reach a sealed service with TLS. */
import { readdir, readFile } from 'node:fs/promises'
import { Agent, request } from 'node:https'
import { join } from 'node:path'
import { text as readText } from 'node:stream/consumers'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { caller } from '../../../test/caller.ts'
import { makeCertificate } from '../../../test/certificate.ts'
import { createDatabase, type Database } from '../../../test/harness.ts'
import { freePort } from '../../../test/postgres.ts'
import { serve } from '../../../test/process.ts'
import { type Ended, type Settings, startCommand } from '../../../test/program.ts'
import { serverMain, startListening, startProgram } from '../../../test/start-server.ts'
import { writeCertificate } from '../../../test/tls-service.ts'
import { until } from '../../../test/wait.ts'

let database: Database
let settings: Settings
let shares: string[] = []

beforeAll(async () => {
  database = await createDatabase({ hasSchema: true })
  settings = { ...database.settings, COFFER_MASTER_KEY_SHARES: 'on' }
  await (await serve(database.settings)).stop()
})
afterAll(() => database.drop())

const share = (index: number) => shares[index - 1] ?? ''
const sharesOn = (screen: string) => screen.match(/^coffer-share-\S+$/gm) ?? []

/** `script` gives the command a terminal, and ends with its exit code. */
function atTerminal(args: readonly string[], given = settings) {
  const words = [process.execPath, serverMain, ...args].map((word) => `'${word}'`)
  const program = startCommand('script', ['-qec', `stty cols 200; exec ${words.join(' ')}`, '/dev/null'], given)
  const screen = () => stripVTControlCharacters(program.out()).replaceAll('\r', '')
  let seen = 0
  return {
    screen,
    ended: program.ended,
    /** Waits for the text behind what was seen before. */
    async see(text: string): Promise<void> {
      await until(() => screen().indexOf(text, seen) >= 0 || undefined, 120_000, `the screen shows ${text}`)
      seen = screen().indexOf(text, seen) + text.length
    },
    type: (text: string) => void program.child.stdin?.write(text),
  }
}

async function run(args: readonly string[], lines: readonly string[], given = settings): Promise<Ended> {
  const program = startProgram(args, given)
  program.child.stdin?.end(lines.map((line) => `${line}\n`).join(''))
  return program.ended
}

test('a split shows its shares once, and leaves them in no file', async () => {
  const split = atTerminal(['keys', 'split', '--shares', '3', '--threshold', '2'], database.settings)
  expect(await split.ended).toMatchObject({ code: 0 })
  shares = sharesOn(split.screen())
  expect(shares).toHaveLength(3)
  expect(split.screen()).toContain('are above, and any 2 of them open this store')
  const names = await readdir(database.dataDir, { recursive: true, withFileTypes: true })
  const files = names.filter((entry) => entry.isFile())
  expect(files.length).toBeGreaterThan(0)
  for (const { parentPath, name } of files) {
    const bytes = await readFile(join(parentPath, name))
    for (const text of shares) expect(bytes.includes(text.split('-').slice(6, 9).join('-')), name).toBe(false)
  }
  expect(await run(['keys', 'move', '--finish'], shares)).toMatchObject({ code: 0 })
})

test('a service with TLS starts sealed, and shares typed at a terminal unseal it without an echo', async () => {
  const pair = makeCertificate()
  const files = await writeCertificate(pair)
  const metricsPort = await freePort()
  const service = await startListening({ ...settings, ...files.settings, COFFER_METRICS_PORT: String(metricsPort) })
  const agent = new Agent({ ca: pair.certificate, keepAlive: true })
  const call = caller(service.url.replace('http:', 'https:'), agent)
  const scrape = () =>
    new Promise<string>((resolve, reject) => {
      const url = `https://127.0.0.1:${metricsPort}/metrics`
      request(url, { ca: pair.certificate }, (response) => resolve(readText(response)))
        .on('error', reject)
        .end()
    })
  expect((await call('GET', '/readyz')).status).toBe(503)
  expect(await scrape()).toContain('\ncoffer_sealed 1\n')
  const asked = { ...settings, ...files.settings, COFFER_PORT: String(service.port) }
  expect(await run(['doctor'], shares, asked)).toMatchObject({
    code: 1,
    out: expect.stringMatching(/ wrong {2}service: runs at .*, but is sealed\. .*Fix: run ".* keys unseal"/),
  })

  const one = atTerminal(['keys', 'unseal'])
  await one.see('Share (not shown')
  one.type(`${share(1).slice(0, -1)}7\x7f${share(1).slice(-1)}\r`)
  await one.see('1 of 2 shares')
  await one.see('Share (not shown')
  one.type('hunter2\r')
  await one.see('is not a share')
  await one.see('Share (not shown')
  one.type('\x03')
  expect(await one.ended).toMatchObject({ code: 130 })

  const other = atTerminal(['keys', 'unseal'])
  await other.see('Share (not shown')
  other.type(`${share(3)}\r`)
  await other.see('is unsealed')
  expect(await other.ended).toMatchObject({ code: 0 })
  for (const { screen } of [one, other]) expect(screen()).not.toMatch(/coffer-share-1-\w|hunter2/)

  const ready = async () => ((await call('GET', '/readyz')).status === 200 ? true : undefined)
  await until(ready, 120_000, 'the service is unsealed')
  await until(async () => (await scrape()).includes('\ncoffer_sealed 0\n') || undefined, 120_000, 'the metrics say so')
  agent.destroy()
  expect(await service.stop()).toMatchObject({ code: 0, err: '' })
  await files.remove()
})

test('a new split asks for the former shares, and these open the store until the move is finished', async () => {
  const split = atTerminal(['keys', 'split', '--shares', '2', '--threshold', '2'])
  await split.see('Share 1 of 2 of the master key (not shown)')
  split.type(`${share(2)}\r`)
  await split.see('Share 2 of 2')
  split.type(`${share(1)}\r`)
  expect(await split.ended).toMatchObject({ code: 0 })
  const next = sharesOn(split.screen())
  expect(next).toHaveLength(2)

  // As if the terminal had been closed before anybody noted the new shares.
  const service = await serve(settings)
  expect((await run(['keys', 'unseal'], [next[0] ?? '', share(3), share(1)])).out).toContain('is unsealed')
  await until(async () => (await service.call('GET', '/readyz')).status === 200 || undefined, 120_000, 'unsealed')
  await service.stop()
  expect(service.messages().join('\n')).toContain('was started with its former source or shares')
  expect(await run(['keys', 'move', '--finish'], shares)).toMatchObject({
    code: 1,
    err: expect.stringContaining('These shares are of a former set: run this again with shares of set'),
  })

  expect(await run(['keys', 'move', '--finish'], next)).toMatchObject({ code: 0 })
  expect(await run(['keys', 'status'], shares)).toMatchObject({
    code: 1,
    err: expect.stringContaining('but the key of this store is split into set'),
  })
  expect(await run(['keys', 'status'], next)).toMatchObject({ code: 0 })
})

test.each([
  ['Enter alone', '\r'],
  ['the end of the input', '\x04'],
])('%s ends the questions of a command', async (_, typed) => {
  const status = atTerminal(['keys', 'status'])
  await status.see('Share 1 of 2 of the master key (not shown)')
  status.type(typed)
  expect(await status.ended).toMatchObject({ code: 1 })
  expect(status.screen()).toContain('hand 2 shares, one per line on stdin or at a terminal; 0 came')
})
