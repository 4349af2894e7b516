/** `keys move` is killed at every step: the store opens with the former settings, and the move is completed by a new run. */
import type { SignedIn } from '@coffer/contract/auth'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDice, seed } from '../../../test/dice.ts'
import { createDatabase, type Database, password } from '../../../test/harness.ts'
import { startGoogleKms } from '../../../test/key-service.ts'
import { type Serving, serve } from '../../../test/process.ts'
import type { Program } from '../../../test/program.ts'
import { setupCode } from '../../../test/setup-code.ts'
import { runProgram, startProgram } from '../../../test/start-server.ts'
import { times } from '../../../test/tier.ts'
import { until } from '../../../test/wait.ts'

const keyName = 'projects/example/locations/global/keyRings/ring/cryptoKeys/coffer'

let database: Database
let kms: Awaited<ReturnType<typeof startGoogleKms>>
let service: Serving
let session = ''
let settings: Record<string, string>

beforeAll(async () => {
  database = await createDatabase({ hasSchema: true })
  kms = await startGoogleKms(keyName)
  settings = {
    ...database.settings,
    CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS: kms.url,
    GCE_METADATA_HOST: kms.url.replace('http://', ''),
  }
  service = await serve(settings)
  const owner = { email: 'owner@example.com', name: 'Owner', password, setupCode }
  session = (await service.call<SignedIn>('POST', '/v1/auth/register', { body: owner })).body.accessToken
})
afterAll(async () => {
  await service.destroy()
  await database.drop()
  kms.stop()
})

const command = ['keys', 'move', '--to', 'google-kms', keyName]
const statusOf = async (node: Serving) => (await node.call('GET', '/v1/workspace/main/team', { token: session })).status
const requests = (operation: string) => kms.requests.filter((text) => text.endsWith(operation)).length

/** Resolves when the program has come to the step, or has ended. */
const reached = (program: Program, isThere: () => boolean) =>
  until(() => isThere() || program.hasEnded() || undefined, 120_000, 'the move comes to the step')

const steps: [string, (program: Program, seen: { encrypts: number; decrypts: number }) => boolean][] = [
  ['before it says anything', () => true],
  ['after it began', (program) => program.out().includes('Moving')],
  ['after the key was wrapped', (_, seen) => requests(':encrypt') > seen.encrypts],
  ['after the key was unwrapped', (_, seen) => requests(':decrypt') > seen.decrypts],
  ['after the new key was proved', (program) => program.out().includes('made a new')],
  ['after the root keys were wrapped', (program) => program.out().includes('wrapped all')],
]

test('kill -9 at every step leaves a store that the former settings open, under a running node', {
  timeout: 600_000,
}, async () => {
  const dice = createDice(seed)
  const later = Array.from({ length: times(2, 12) }, () => steps[4]).flatMap((step) => (step ? [step] : []))
  for (const [what, isThere] of [...steps, ...later]) {
    const seen = { encrypts: requests(':encrypt'), decrypts: requests(':decrypt') }
    const program = startProgram(command, settings)
    await reached(program, () => isThere(program, seen))
    // The transaction follows the proof, and takes some milliseconds.
    if (what === 'after the new key was proved') await new Promise((resolve) => setTimeout(resolve, dice(12)))
    program.kill('SIGKILL')
    await program.ended
    expect(await statusOf(service), what).toBe(200)
    expect(await runProgram(['keys', 'status'], settings), what).toMatchObject({ code: 0, err: '' })
  }

  // A node that starts between a killed move and the next run works with the former settings too.
  const other = await serve(settings)
  expect(await runProgram(command, settings)).toMatchObject({ code: 0, err: '' })
  const next = { ...settings, COFFER_MASTER_KEY_GOOGLE_KMS: keyName }
  for (const node of [service, other]) expect(await statusOf(node)).toBe(200)
  await other.stop()
  const finished = await runProgram(['keys', 'move', '--finish'], next)
  expect(finished).toMatchObject({ code: 0, err: '' })
  expect(finished.out).toContain('nothing any more')
  const former = await runProgram([], { ...settings, COFFER_PORT: '0' })
  expect(former).toMatchObject({ code: 1 })
  expect(former.err).toContain('set COFFER_MASTER_KEY_GOOGLE_KMS, and no other source')
  const started = await serve(next)
  expect(await statusOf(started)).toBe(200)
  expect(started.messages().join()).not.toContain('former source')
  await started.stop()
  expect(await runProgram(['doctor'], next)).toMatchObject({ code: 0, err: '' })
})
