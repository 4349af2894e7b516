/** The master key moves to another custody under running nodes; the former key ends with the move. */
import { randomBytes } from 'node:crypto'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  createDatabase,
  createProject,
  type Database,
  openService,
  registerOwner,
  type TestService,
  type TestUser,
} from '../../../test/harness.ts'
import { startAzureVault, startGoogleKms } from '../../../test/key-service.ts'
import { rotate } from '../../../test/rotation.ts'
import { spellings } from '../../../test/spelling.ts'
import { openEngine } from '../../../test/store.ts'
import { until } from '../../../test/wait.ts'
import { readConfig } from '../config.ts'
import { asOperator } from '../domain/context.ts'
import { describeCustody, finishMove, moveMasterKey } from '../domain/custody.ts'
import { sql } from '../store/engine/sql.ts'
import { wrappedMaster } from '../store/instance.ts'
import { readKeyRows } from '../store/key/rows.ts'
import { showKeys } from './keys.ts'
import { moveKeys } from './keys-move.ts'

const secretPath = '/v1/workspace/main/project/api/secret'
const keyName = 'projects/example/locations/global/keyRings/ring/cryptoKeys/coffer'

let database: Database
let here: TestService
let there: TestService
let owner: TestUser
let written = 0
const stops: (() => void)[] = []

beforeEach(async () => {
  database = await createDatabase({ hasSchema: true })
  here = await openService(database.settings, database.dataDir)
  owner = await registerOwner(here)
  await createProject(here, owner.session, 'api')
  there = await openService(database.settings, database.dataDir)
})
afterEach(async () => {
  await here.stop()
  await there.stop()
  await database.drop()
  for (const stop of stops.splice(0)) stop()
})

type Settings = Record<string, string>

async function run(settings: Settings, ...args: string[]): Promise<string> {
  let printed = ''
  const print = (text: string) => {
    printed += text
    return 0
  }
  // The command waits by time; here by the condition.
  if (args.includes('--finish')) for (const node of [here, there]) await awaitFollowed(node)
  const code = await moveKeys(settings, args, print, 0)
  expect(code).toBe(0)
  return printed
}

/** The node holds the key that wraps the roots. */
async function awaitFollowed({ app: { services } }: TestService): Promise<void> {
  const holds = async () => {
    const [root] = (await readKeyRows(services.engine)).roots
    try {
      return root && services.keys.master.openRoot(root) !== undefined ? true : undefined
    } catch {
      return undefined
    }
  }
  await until(holds, 120_000, 'the node follows the move')
}

const refusal = (work: Promise<unknown>) =>
  work.then(
    () => 'it worked',
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  )

/** Writes on one node and reads on the other, and reads everything from before. */
async function expectWorking(): Promise<void> {
  const name = `KEY_${++written}`
  const body = { environments: ['development'], secrets: [{ key: name, value: `value of ${name}` }] }
  const made = await here.call('POST', secretPath, { token: owner.session, body })
  expect(made.status, made.text).toBe(201)
  const read = async () => {
    const answer = await there.call<{ name: string }[]>('GET', secretPath, { token: owner.session })
    return answer.status === 200 && answer.body.length === written ? true : undefined
  }
  await until(read, 120_000, 'the other node reads the secret')
}

async function expectOpens(settings: Settings): Promise<void> {
  const node = await openService(settings, database.dataDir)
  expect(node.app.services.keys.isHandedOver).toBe(false)
  await node.stop()
}

async function startServices() {
  const [google, azure] = [await startGoogleKms(keyName), await startAzureVault()]
  stops.push(google.stop, azure.stop)
  return {
    CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDKMS: google.url,
    GCE_METADATA_HOST: google.url.replace('http://', ''),
    AZURE_POD_IDENTITY_AUTHORITY_HOST: azure.url,
    vault: `${azure.url}/keys/coffer`,
  }
}

test('moves between kinds under two running nodes, and each former source ends with its move', async () => {
  written = 0
  const { vault, ...vendors } = await startServices()
  const other = join(database.dataDir, 'other.key')
  const spare = join(database.dataDir, 'spare.key')
  await writeFile(spare, `${randomBytes(32).toString('base64')}\n`, { mode: 0o600 })
  const moves: [kind: string, place: string, setting: string, moved: RegExp][] = [
    ['google-kms', keyName, 'COFFER_MASTER_KEY_GOOGLE_KMS', /moved to Google Cloud KMS on/],
    ['azure-key-vault', vault, 'COFFER_MASTER_KEY_AZURE_KEY_VAULT', /moved to Azure Key Vault on/],
    ['command', `cat ${spare}`, 'COFFER_MASTER_KEY_COMMAND', /moved to a command on/],
    ['file', other, 'COFFER_MASTER_KEY_FILE', /does not match this database/],
  ]
  let settings: Settings = { ...database.settings, ...vendors }
  for (const [kind, place, setting, moved] of moves) {
    const next = { ...database.settings, ...vendors, [setting]: place }
    const said = await run(settings, '--to', kind, place)
    expect(said).toContain(`Set ${setting}=${place}`)
    await expectWorking()
    await expectOpens(next)
    // The former settings still work, but cannot finish the move.
    const former = await openService(settings, database.dataDir)
    expect(former.app.services.keys.isHandedOver).toBe(true)
    await former.stop()
    expect(await refusal(run(settings, '--finish'))).toContain(`set ${setting}, restart every node`)
    expect(await run(settings, '--to', kind, place)).toContain('already')

    expect(await run(next, '--finish')).toContain('the former master key opens nothing any more')
    expect(await run(next, '--finish')).toContain('There is no move to finish')
    expect(await refusal(openService(settings, database.dataDir))).toMatch(moved)
    await expectOpens(next)
    await expectWorking()
    settings = next
  }
  expect((await stat(other)).mode & 0o777).toBe(0o600)
  // Nodes that began with the first key rotate under the last one.
  await rotate(here)
  await expectWorking()
  await expectOpens(settings)
})

test('a finished move can be repeated to the same key service, which wraps a new key', async () => {
  written = 0
  const { vault, ...vendors } = await startServices()
  // Credentials and addresses of the new service may be in the file of settings, as at a start.
  const file = join(database.dataDir, 'coffer.conf')
  const lines = Object.entries(vendors).map(([name, value]) => `${name}=${value}`)
  await writeFile(file, `${lines.join('\n')}\n`, { mode: 0o600 })
  const settings = { ...database.settings, COFFER_CONFIG: file }
  const wrapped = async () => (await wrappedMaster(here.app.services.engine, Date.now).list())[0]
  await run(settings, '--to', 'azure-key-vault', vault)
  const next = { ...settings, COFFER_MASTER_KEY_AZURE_KEY_VAULT: vault }
  await run(next, '--finish')
  const before = await wrapped()
  expect(await run(next, '--to', 'azure-key-vault', vault)).toContain('made a new master key')
  expect(await wrapped()).not.toBe(before)
  expect(await run(next, '--to', 'azure-key-vault', vault)).toContain('already')
  expect(await run(next, '--finish')).toContain('the former master key opens nothing any more')
  await expectWorking()
  await expectOpens(next)
})

test('two moves in a row are followed by nodes with the first key, and by a start with it', async () => {
  written = 0
  const [one, two] = [join(database.dataDir, 'one.key'), join(database.dataDir, 'two.key')]
  await run(database.settings, '--to', 'file', one)
  await run(database.settings, '--to', 'file', two)
  await expectWorking()
  const late = await openService(database.settings, database.dataDir)
  expect(late.app.services.keys.isHandedOver).toBe(true)
  await late.stop()
  const settings = { ...database.settings, COFFER_MASTER_KEY_FILE: two }
  expect(await run(settings, '--finish')).toContain('2 former master keys open nothing')
  for (const former of [database.settings, { ...database.settings, COFFER_MASTER_KEY_FILE: one }]) {
    expect(await refusal(openService(former, database.dataDir))).toContain('does not match this database')
  }
  await expectOpens(settings)
})

test('a node that missed the move follows it inside the transaction of its next rotation', async () => {
  written = 0
  here.app.services.store.changes.listAfter = async () => []
  const place = join(database.dataDir, 'next.key')
  await run(database.settings, '--to', 'file', place)
  await rotate(here)
  await expectOpens({ ...database.settings, COFFER_MASTER_KEY_FILE: place })
})

test('neither key is in the database, and the trail of the system has the move', async () => {
  const place = join(database.dataDir, 'next.key')
  await run(database.settings, '--to', 'file', place)
  const engine = openEngine(database.settings)
  const rows = {
    instance: await engine.all(sql`select * from instance`),
    handover: await engine.all(sql`select * from master_handover`),
    audit: await engine.all(sql`select * from audit_entry`),
  }
  await engine.close()
  expect(rows.handover).toHaveLength(1)
  const stored = Object.values(rows).flatMap((list) =>
    list.flatMap((row) =>
      Object.values(Object(row)).map((cell) => Buffer.from(cell instanceof Uint8Array ? cell : String(cell))),
    ),
  )
  for (const path of [place, join(database.dataDir, 'master.key')]) {
    const key = Buffer.from((await readFile(path, 'utf8')).trim(), 'base64')
    for (const spelling of spellings(key)) {
      for (const cell of stored) expect(cell.includes(spelling.bytes)).toBe(false)
    }
  }
  expect(JSON.stringify(rows.audit)).toContain('master-key')
})

test('the status names the custody and an unfinished move', async () => {
  const place = join(database.dataDir, 'next.key')
  await run(database.settings, '--to', 'file', place)
  const status = async (settings: Settings) => {
    let printed = ''
    await showKeys(readConfig(settings), (text) => {
      printed += text
      return 0
    })
    return printed
  }
  expect(await status(database.settings)).toMatch(
    /Custody: a file since .*finish with keys move --finish. These settings/,
  )
  const settings = { ...database.settings, COFFER_MASTER_KEY_FILE: place }
  expect(await status(settings)).not.toContain('These settings')
  await run(settings, '--finish')
  expect(await status(settings)).toMatch(/Custody: a file since \S+\.\n/)
})

test.each<[string, string[], string]>([
  ['no kind', ['somewhere'], 'keys move --to <kind> <place>'],
  ['an unknown kind', ['--to', 'hunter2', 'x'], 'Not a place for a key'],
  ['a value, which would be in the list of processes', ['--to', 'value', 'hunter2'], 'Not a place for a key'],
  ['two places', ['--to', 'file', 'a', 'b'], 'Not a move'],
  ['an unknown option', ['--hunter2'], 'Not a move'],
  ['a key name that is none', ['--to', 'google-kms', 'hunter2'], 'COFFER_MASTER_KEY_GOOGLE_KMS must be of the form'],
  ['a command that fails', ['--to', 'command', 'exit 3'], 'failed with status 3'],
  ['a file in a folder that is not there', ['--to', 'file', '/nowhere/master.key'], '(ENOENT)'],
])('refuses %s, and changes nothing', async (_, args, reason) => {
  const message = await refusal(run(database.settings, ...args))
  expect(message).toContain(reason)
  expect(message).not.toContain('hunter2')
  const node = await openService(database.settings, database.dataDir)
  expect(node.app.services.keys.isHandedOver).toBe(false)
  await node.stop()
})

test('refuses to move to the key that is in use, and a wrong key in the settings', async () => {
  const place = join(database.dataDir, 'master.key')
  expect(await refusal(run(database.settings, '--to', 'command', `cat ${place}`))).toContain(
    'holds the key that is in use',
  )
  const wrong = join(database.dataDir, 'wrong.key')
  await writeFile(wrong, randomBytes(32).toString('base64'), { mode: 0o600 })
  const settings = { ...database.settings, COFFER_MASTER_KEY_FILE: wrong }
  expect(await refusal(run(settings, '--to', 'file', join(database.dataDir, 'x.key')))).toContain('does not match')
  await rm(wrong)
})

test('a move during the wait of another one for its end is not ended with it', async () => {
  const { services } = here.app
  const move = () => {
    const custody = { kind: 'file', movedAt: services.now() } as const
    return moveMasterKey(asOperator(services), { key: randomBytes(32), custody, wrapped: undefined })
  }
  await move()
  await expect(finishMove(asOperator({ ...services, sleep: move }))).rejects.toMatchObject({ code: 'conflict' })
  expect((await describeCustody(services)).former).toHaveLength(2)
  for (const node of [here, there]) await awaitFollowed(node)
})
