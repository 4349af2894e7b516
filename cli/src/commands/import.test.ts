// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here hold references.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openShell, type Shell } from '../../../test/cli.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'
import { startVault, type VaultServer } from '../../../test/vault-server.ts'

const canary = 'c4n4ry-v4lue'
let coffer: SdkService
let vault: VaultServer

beforeAll(async () => {
  coffer = await startSdkService()
  vault = await startVault({
    token: 'hvs.c4n4ry-token',
    namespace: 'team-a',
    mounts: {
      secret: {
        type: 'kv',
        version: '2',
        secrets: {
          app: { DATABASE_URL: canary },
          'app/mail': { 'smtp.password': 'p', port: 25 },
          'app/mail/old': null,
          'app/pay ment/eu': { key: 'k' },
          'closed/a': { A: '1' },
          'closed/b': { B: '2' },
          narrow: { ONLY: 'this' },
          'narrow/hidden': { HIDDEN: 'x' },
          below: { ABOVE: 'x' },
          'below/db': { URL: 'u' },
          'clash/a': { 'b.c': '1' },
          'clash/a/b': { c: '2' },
        },
      },
      'team/legacy': { type: 'kv', version: '1', secrets: { shop: { TOKEN: 't' }, 'shop/db': { URL: 'u' } } },
      old: { type: 'kv', secrets: { app: { KEY: 'v' } } },
      pki: { type: 'pki', secrets: {} },
    },
    forbidden: ['secret/closed/b', 'secret/narrow/', 'secret/below', 'secret/dark', 'secret/dark/'],
  })
})
afterAll(async () => {
  await vault.stop()
  await coffer.stop()
})
beforeEach(async () => {
  vault.intercept = undefined
  for (const name of Object.keys(await stored())) await coffer.remove(name)
})

const env = () => ({ ...coffer.env, COFFER_TOKEN: coffer.session })
const shellOf = (more: Record<string, string | undefined> = {}) => openShell({ ...env(), ...more })
const vaultEnv = () => ({ VAULT_ADDR: vault.url, VAULT_TOKEN: 'hvs.c4n4ry-token', VAULT_NAMESPACE: 'team-a' })

type Row = { name: string; note: string; values: { value: string }[] }
const readAll = async () => {
  const path = '/v1/workspace/main/project/api/secret?environmentId=development'
  return (await coffer.service.call<Row[]>('GET', path, { token: coffer.session })).body
}
const stored = async () => Object.fromEntries((await readAll()).map(({ name, values }) => [name, values[0]?.value]))

function put(shell: Shell, name: string, text: string | Buffer): string {
  writeFileSync(join(shell.cwd, name), text)
  return name
}

describe('a file', () => {
  test('shows names and what happens to them, never values, and says that the file stays', async () => {
    const shell = shellOf()
    const file = put(shell, '.env', `# shop\nALPHA=${canary}\nexport BETA="two words"\n`)
    expect(await shell.coffer(['import', file])).toEqual({
      code: 0,
      signal: null,
      out: 'ALPHA\tadded\t1\nBETA\tadded\t1\n',
      err:
        'Format: dotenv.\n2 added in api/development.\n' +
        '.env still holds the secrets in the clear: delete it when you no longer need it.\n',
    })
    expect(await stored()).toEqual({ ALPHA: canary, BETA: 'two words' })

    put(shell, '.env', `ALPHA=${canary}\nBETA=three\nGAMMA=\n`)
    const dry = await shell.coffer(['import', file, '--mode', 'upsert', '--dry-run'])
    expect(dry).toMatchObject({ code: 0, out: 'ALPHA\tsame\nBETA\tchanged\nGAMMA\tadded\n' })
    expect(dry.err).toContain('1 added, 1 changed, 1 same in api/development; nothing was written.')
    expect(dry.err).not.toContain('in the clear')
    expect(await stored()).toEqual({ ALPHA: canary, BETA: 'two words' })

    const skipped = await shell.coffer(['import', file, '--mode=skip', '--json', '-q', '-m', 'from the old host'])
    expect(skipped).toMatchObject({ code: 0, err: '' })
    expect(JSON.parse(skipped.out)).toMatchObject({ success: true, revision: expect.any(Number) })
    expect(await stored()).toEqual({ ALPHA: canary, BETA: 'two words', GAMMA: '' })

    const printed = [dry.out, dry.err, skipped.out].join()
    expect(printed).not.toContain(canary)
    expect(readdirSync(shell.home)).toEqual([])
  })

  test.each(['', '# nothing\n', '{}'])('%j is refused: the command before the pipe may have failed', async (input) => {
    const outcome = await shellOf().coffer(['import', '-', '-q'], { input })
    expect(outcome).toMatchObject({ code: 1, out: '', err: 'coffer: There is nothing to import.\n' })
  })

  test('refuses keys that exist, unless a mode says what to do', async () => {
    await coffer.write({ ALPHA: 'one' })
    const shell = shellOf()
    const { code, out, err } = await shell.coffer(['import', '-'], { input: 'ALPHA=two\nBETA=2\n' })
    expect({ code, out }).toEqual({ code: 6, out: '' })
    expect(err).toMatch(/ALPHA.*\ntry: --mode upsert to change them, or --mode skip to leave them\n$/s)
    expect(await stored()).toEqual({ ALPHA: 'one' })
  })

  test.each([
    [['import'], 2, 'A file is missing.'],
    [['import', 'absent.env'], 2, 'There is no file absent.env in '],
    [['import', '/no/such.env'], 2, 'There is no file /no/such.env.'],
    [['import', '.'], 2, '. cannot be read (EISDIR).'],
    [['import', '.env', '--format', 'toml'], 2, '--format must be one of: dotenv, json, yaml, csv, vault, doppler'],
    [['import', '.env', '--mode', 'replace'], 2, '--mode must be one of: create, upsert, skip.'],
    [['import', '.env', '--path', 'secret'], 2, '--path belongs to --from vault.'],
    [['import', '.env', '--from', 'vault', '--path', 'secret'], 2, '--from vault takes neither a file nor --format.'],
    [['import', '--from', 'vault'], 2, '--from vault needs --path.'],
    [
      ['import', '.env', '-e', 'nowhere'],
      5,
      'There is no environment nowhere in the project api, or this credential does not reach it.',
    ],
    [['import', '.env', '-e', 'staging,production'], 2, 'Name one environment.'],
    [['import', 'broken.env'], 1, 'line 2'],
    [['import', 'broken.env', '--format', 'vault'], 1, 'This is not a JSON export of Vault.'],
    [['import', 'latin1.env'], 1, 'latin1.env is not UTF-8 text.'],
    [['import', 'large.env'], 1, 'One import takes at most 10,000 secrets and 8 MiB. Nothing was imported.'],
    [['import', 'many.json'], 1, 'One import takes at most 10,000 secrets and 8 MiB. Nothing was imported.'],
    [['import', 'dotted.json'], 1, '"a.b" is not 1-255 letters, digits, _ and -'],
  ])('%j ends with %i and %j', async (args, code, message) => {
    const shell = shellOf()
    put(shell, '.env', 'A=1\n')
    put(shell, 'broken.env', `A=1\n${canary} ' "\n`)
    put(shell, 'latin1.env', Buffer.from('A=\xe9\n', 'latin1'))
    if (args[1] === 'large.env') put(shell, 'large.env', `A=${'x'.repeat(8 * 1024 * 1024)}`)
    const many = Array.from({ length: 10_001 }, (_, at) => ({ key: `K${at}`, value: 'x' }))
    put(shell, 'many.json', JSON.stringify(many))
    put(shell, 'dotted.json', '{"a.b":"1"}')
    const outcome = await shell.coffer(args)
    expect(outcome).toMatchObject({ code, out: '' })
    expect(outcome.err).toContain(message)
    expect(outcome.err).not.toContain(canary)
    expect(await stored()).toEqual({})
  })

  test('the export of another tool comes with its names and notes', async () => {
    const input = JSON.stringify({
      API_KEY: { computed: 'k${x}', computedVisibility: 'masked', note: 'of the shop' },
      'odd.name': { computed: canary, computedVisibility: 'masked', note: '' },
      DOPPLER_CONFIG: { computed: 'dev', computedVisibility: 'unmasked', note: '' },
    })
    const { code, out, err } = await shellOf().coffer(['import', '-'], { input })
    expect({ code, out }).toEqual({ code: 0, out: 'API_KEY\tadded\t1\nODD_NAME\tadded\t1\n' })
    expect(err).toBe(
      'Format: export of Doppler.\nRenamed: odd.name → ODD_NAME.\n' +
        "Left out: DOPPLER_CONFIG (Doppler's own).\n2 added in api/development.\n",
    )
    expect(await stored()).toEqual({ API_KEY: 'k$${x}', ODD_NAME: canary })
    expect((await readAll()).find(({ name }) => name === 'API_KEY')?.note).toBe('of the shop')
  })

  test('ten thousand secrets are one import', async () => {
    const lines = Array.from({ length: 10_000 }, (_, at) => `K${at}=${at}\n`)
    const outcome = await shellOf().coffer(['import', '-', '--dry-run', '-q'], { input: lines.join('') })
    expect(outcome).toMatchObject({ code: 0, err: '' })
    expect(outcome.out.split('\n')).toHaveLength(10_001)
  })

  test('a service that does not know the credential says so', async () => {
    const { code } = await shellOf({ COFFER_TOKEN: coffer.token }).coffer(['import', '-'], { input: 'A=1' })
    expect(code).toBe(4)
  })

  test('in a terminal, a folder without a project is set up first', async () => {
    const shell = shellOf({ COFFER_PROJECT: undefined, COFFER_ENVIRONMENT: undefined })
    const absent = shell.terminal(['import', 'absent.env'])
    await absent.see('There is no file absent.env in ')
    expect(await absent.ended).toMatchObject({ code: 2 })
    const cwd = join(shell.cwd, 'api')
    mkdirSync(cwd)
    writeFileSync(join(cwd, '.env'), `ALPHA=${canary}\n`)
    const session = shell.terminal(['import', '.env'], { cwd })
    await session.see('This folder has no project yet.')
    await session.see(/● .*api/)
    session.type('\r')
    await session.see('development')
    session.type('\r')
    await session.see('1 added in api/development.')
    expect(await session.ended).toMatchObject({ code: 0 })
    expect(session.screen()).not.toContain(canary)
    const file = JSON.parse(readFileSync(join(cwd, '.coffer.json'), 'utf8'))
    expect(file).toEqual({ url: coffer.service.url, workspace: 'main', project: 'api', environment: 'development' })
    expect(await stored()).toEqual({ ALPHA: canary })
  })

  test('--literal takes references as text, single quotes do, and a file of dotenvx is refused', async () => {
    const shell = shellOf()
    const valuesOf = async () => JSON.parse((await shell.coffer(['export', '-f', 'json'])).out)
    writeFileSync(join(shell.cwd, 'all.json'), JSON.stringify({ LIT_A: '${NOWHERE}' }))
    expect(await shell.coffer(['import', 'all.json', '--literal', '-q'])).toMatchObject({ code: 0, err: '' })
    writeFileSync(join(shell.cwd, '.env'), "LIT_B='${NOWHERE}'\n")
    expect(await shell.coffer(['import', '.env', '-q'])).toMatchObject({ code: 0, err: '' })
    expect(await valuesOf()).toMatchObject({ LIT_A: '${NOWHERE}', LIT_B: '${NOWHERE}' })
    writeFileSync(join(shell.cwd, '.env'), `DOTENV_PUBLIC_KEY=02\nLIT_C="encrypted:${'B'.repeat(136)}"\n`)
    const { code, err } = await shell.coffer(['import', '.env'])
    expect(code).toBe(1)
    expect(err).toMatch(/\.env: line 2: this value is encrypted by dotenvx.*\ntry: dotenvx decrypt/)
  })

  test('names references that lead nowhere, and the file with a line that is none', async () => {
    const shell = shellOf()
    writeFileSync(join(shell.cwd, '.env'), 'URL=http://${NOWHERE}/\nPLAIN=$${HOME}\n')
    const { code, err } = await shell.coffer(['import', '.env'])
    expect(code).toBe(0)
    expect(err).toContain('URL: refers to NOWHERE, which cannot be resolved.\ntry: set what is missing')
    expect(err).not.toContain('PLAIN')
    writeFileSync(join(shell.cwd, '.env'), 'A=1\n???\n')
    const refused = await shell.coffer(['import', '.env', '--format', 'dotenv'])
    expect(refused).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^coffer: \.env: line 2.*\ntry: check the line/),
    })
  })

  test('without a project it says what is missing, and reads nothing', async () => {
    const outcome = await shellOf({ COFFER_PROJECT: undefined }).coffer(['import', '.env'])
    expect(outcome).toMatchObject({
      code: 2,
      err: 'coffer: The project is not known.\ntry: set COFFER_PROJECT\n',
    })
  })
})

describe('a live Vault', () => {
  const importFrom = (path: string, more: Record<string, string | undefined> = {}, args: string[] = []) =>
    shellOf({ ...vaultEnv(), ...more }).coffer(['import', '--from', 'vault', '--path', path, ...args])

  test('KV version 2: the secret at the path, and the folders below it with their names', async () => {
    const { code, out, err } = await importFrom('secret/app')
    expect({ code, out }).toEqual({
      code: 0,
      out: 'DATABASE_URL\tadded\t1\nMAIL_PORT\tadded\t1\nMAIL_SMTP_PASSWORD\tadded\t1\nPAY_MENT_EU_KEY\tadded\t1\n',
    })
    expect(err).toContain('Left out: secret/app/mail/old (deleted).')
    expect(await stored()).toEqual({
      DATABASE_URL: canary,
      MAIL_PORT: '25',
      MAIL_SMTP_PASSWORD: 'p',
      PAY_MENT_EU_KEY: 'k',
    })
    expect(out + err).not.toMatch(/c4n4ry/)
  })

  test('KV version 1, in a mount with a slash in its name', async () => {
    expect(await importFrom('/team/legacy/shop/')).toMatchObject({
      code: 0,
      out: 'DB_URL\tadded\t1\nTOKEN\tadded\t1\n',
    })
    expect((await importFrom('team/legacy', {}, ['--dry-run'])).out).toBe('SHOP_DB_URL\tadded\nSHOP_TOKEN\tadded\n')
  })

  test('a policy for the secret alone, or only for what is below it, is enough; the rest is named', async () => {
    expect(await importFrom('secret/narrow', {}, ['--dry-run'])).toMatchObject({
      code: 0,
      out: 'ONLY\tadded\n',
      err: expect.stringContaining('Vault refuses the token for secret/narrow/, so this part is left out.\n'),
    })
    expect(await importFrom('secret/below', {}, ['--dry-run'])).toMatchObject({
      code: 0,
      out: 'DB_URL\tadded\n',
      err: expect.stringContaining('Vault refuses the token for secret/below, so this part is left out.\n'),
    })
  })

  test.each([
    ['secret/dark', {}, 4, 'Vault refuses the token for secret/dark. Nothing was imported.'],
    ['secret/closed', {}, 4, 'Vault refuses the token for secret/closed/b. Nothing was imported.'],
    ['secret/clash', {}, 1, 'Several secrets would get the same name: a/b.c and a/b/c → A_B_C.'],
    ['secret/absent', {}, 1, 'There is nothing to import.'],
    ['nowhere/app', {}, 4, 'Vault refuses the token for this path, or has no mount there.'],
    ['pki/ca', {}, 1, 'The mount pki/ is not a KV engine'],
    ['secret/../sys', {}, 1, 'cannot be read'],
    ['secret/app', { VAULT_TOKEN: 'hvs.c4n4ry-wrong' }, 4, 'Vault refuses the token'],
    ['secret/app', { VAULT_NAMESPACE: undefined }, 4, 'Vault refuses the token'],
    [
      'secret/app',
      { VAULT_TOKEN: undefined },
      2,
      'VAULT_TOKEN is not set.\ntry: export VAULT_TOKEN="$(vault print token)"',
    ],
    ['secret/app', { VAULT_TOKEN: 'c4n4ry\nx' }, 2, 'VAULT_TOKEN is not set.'],
    ['secret/app', { VAULT_ADDR: undefined }, 2, 'VAULT_ADDR is not set.'],
    ['secret/app', { VAULT_ADDR: 'http://u:c4n4ry@localhost' }, 2, 'VAULT_ADDR is not an http(s) address.'],
    ['secret/app', { VAULT_ADDR: 'http://127.0.0.1:1' }, 7, 'Vault at 127.0.0.1:1 cannot be reached (ECONNREFUSED).'],
    ['/', {}, 2, '--path is empty.'],
  ])('%s with %j ends with %i: %s', async (path, more, code, message) => {
    const outcome = await importFrom(path, more)
    expect(outcome).toMatchObject({ code, out: '' })
    expect(outcome.err).toContain(message)
    expect(outcome.err).not.toMatch(/c4n4ry/)
    expect(await stored()).toEqual({})
  })

  test.each([
    [503, '{"errors":["Vault is sealed c4n4ry"]}', 7, 'Vault is sealed or starts up.'],
    [429, '{"errors":["c4n4ry"]}', 8, 'Vault limits the rate of requests.'],
    [307, '', 1, 'Vault answered with a redirect.'],
    [200, '<html>c4n4ry', 1, 'Vault answered in an unexpected way (status 200).'],
    [500, '{"errors":["c4n4ry"]}', 1, 'Vault answered in an unexpected way (status 500).'],
  ])('an answer with status %i is explained without its text', async (status, body, code, message) => {
    vault.intercept = (_, response) => {
      response.writeHead(status, { location: 'http://other.example.test/' }).end(body)
      return true
    }
    const outcome = await importFrom('secret/app')
    expect(outcome.code).toBe(code)
    expect(outcome.err).toContain(message)
    expect(outcome.err).not.toMatch(/c4n4ry/)
  })

  test('a Vault without the endpoint about mounts has KV version 1', async () => {
    vault.intercept = ({ url }, response) => {
      if (!url?.startsWith('/v1/sys/')) return false
      response.writeHead(404).end('{"errors":[]}')
      return true
    }
    expect(await importFrom('old/app')).toMatchObject({ code: 0, out: 'KEY\tadded\t1\n' })
    expect(vault.requests).toEqual(expect.arrayContaining(['GET /v1/old/app', 'GET /v1/old/app?list=true']))
  })
})

test('the help explains formats and names', async () => {
  const { out } = await openShell().coffer(['import', '--help'])
  expect(out).toContain('db/prod.password is imported as DB_PROD_PASSWORD')
})
