/** `sources` of .coffer.json: commands that read values see what `coffer run` sets, and the others ask for one environment. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openShell, type Shell } from '../../../test/cli.ts'
import { createProject, createToken } from '../../../test/harness.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'

let running: SdkService
/** May write, so that a refusal is not one of the service. */
let writer: string
let sharedId: string

async function fill(project: string, environment: string, values: Readonly<Record<string, string>>): Promise<void> {
  const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
  const { status, text } = await running.service.call('POST', `/v1/workspace/main/project/${project}/secret`, {
    token: running.session,
    body: { environments: [environment], secrets },
  })
  expect(status, text).toBe(201)
}

const shared = {
  HOST: 'shared.example.com',
  REGION: 'eu',
  ODD: `it's "odd": \`a\` \\ $HOME %{x} é\tend`,
  TEXT: 'two\nlines\r\n',
  JAVA_OPTS: '-Xmx1g',
}
const api = { HOST: 'db.example.com', URL: `postgres://\${HOST}/app`, '2ND': 'no variable' }
const sources = [{ project: 'api' }, { project: 'shared' }, { project: 'shared', environment: 'staging', prefix: 'S_' }]
/** The merged values of all sources. */
const merged: Readonly<Record<string, string>> = {
  ...shared,
  URL: 'postgres://db.example.com/app',
  '2ND': 'no variable',
  S_HOST: 'staging.example.com',
}

beforeAll(async () => {
  running = await startSdkService()
  const { service, session } = running
  sharedId = (await createProject(service, session, 'shared')).id
  await createProject(service, session, 'together')
  await fill('api', 'development', api)
  await fill('api', 'staging', { HOST: 'db.staging.example.com' })
  await fill('shared', 'development', shared)
  await fill('shared', 'staging', { HOST: 'staging.example.com' })
  await fill('together', 'development', merged)
  writer = (await createToken(service, session, { permission: 'read-write' })).token
})
afterAll(() => running.stop())

/** In a folder whose .coffer.json lists the sources. */
function open(file: Readonly<Record<string, unknown>> = {}, env: Record<string, string | undefined> = {}): Shell {
  const none = { COFFER_PROJECT: undefined, COFFER_ENVIRONMENT: undefined }
  const shell = openShell({ ...running.env, ...none, ...env })
  writeFileSync(join(shell.cwd, '.coffer.json'), JSON.stringify({ environment: 'development', sources, ...file }))
  return shell
}

async function textOf(shell: Shell, args: readonly string[]): Promise<string> {
  const { code, out, err } = await shell.coffer(args)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return out
}

const together = ['-p', 'together', '-e', 'development']
const plain = ['--only', 'REGION,URL,S_HOST']

describe('export', () => {
  test('writes what run sets', async () => {
    const script = 'process.stdout.write(JSON.stringify(process.env))'
    const run = ['run', '--pristine', '-q', '--no-strict', '--', process.execPath, '-e', script]
    const { '2ND': _, JAVA_OPTS: __, ...variables } = merged
    const { out } = await open().coffer(run)
    expect(JSON.parse(out)).toEqual(variables)
    expect(JSON.parse(await textOf(open(), ['export', '--json']))).toEqual(merged)
  })

  test.each([
    { format: 'dotenv', flags: ['-q'] },
    { format: 'json', flags: [] },
    { format: 'yaml', flags: [] },
    { format: 'csv', flags: [] },
    { format: 'tfvars', flags: ['--only', 'HOST,REGION,ODD,TEXT,JAVA_OPTS,URL,S_HOST'] },
    { format: 'docker', flags: plain },
    { format: 'gitlab', flags: plain },
    { format: 'fish', flags: ['--only', 'HOST,REGION,ODD,TEXT,URL,S_HOST'] },
    { format: 'shell', flags: ['--only', 'HOST,REGION,ODD,TEXT,URL,S_HOST'] },
  ])('writes $format as the service writes one environment with the same secrets', async ({ format, flags }) => {
    const args = ['export', '-f', format, ...flags]
    const found = await textOf(open(), args)
    expect(found).not.toBe('')
    expect(found).toBe(await textOf(open(), [...args, ...together]))
  })

  test('for a shell leaves out the names that run leaves out, and gives bash the others', async () => {
    const args = ['export', '-f', 'shell', '--no-strict']
    const { code, out, err } = await open().coffer(args)
    expect(code).toBe(0)
    expect(err).toContain('Left out of the variables: 2ND (not the name of a variable), JAVA_OPTS (Java obeys it).')
    expect({ out, err }).toEqual(
      await open()
        .coffer([...args, ...together])
        .then(({ out, err }) => ({ out, err })),
    )
    const script = `${out}\nprintf '%s' "$ODD$URL$S_HOST"`
    const { stdout } = spawnSync('bash', ['-c', script], { encoding: 'utf8', env: {} })
    expect(stdout).toBe(`${merged.ODD}${merged.URL}${merged.S_HOST}`)
    const strict = await open().coffer(['export', '-f', 'shell'])
    expect(strict).toMatchObject({ code: 1, out: '', err: expect.stringContaining('JAVA_OPTS') })
    const allowed = await open().coffer([...args, '--allow-name', 'JAVA_OPTS'])
    expect(allowed.out).toContain("export JAVA_OPTS='-Xmx1g'\n")
  })

  test('asks for one environment where a file belongs to one', async () => {
    expect(await open().coffer(['export', '-f', 'k8s'])).toMatchObject({
      code: 2,
      out: '',
      err: 'coffer: The format k8s needs one environment, after which its Secret is named.\ntry: -p PROJECT -e ENVIRONMENT\n',
    })
    expect(await open().coffer(['export', '--no-resolve'])).toMatchObject({
      code: 2,
      out: '',
      err: 'coffer: --no-resolve needs one environment, in which the references lead somewhere.\ntry: -p PROJECT -e ENVIRONMENT\n',
    })
  })

  test('names the key that a format cannot hold, and the secret that is in no source', async () => {
    expect(await open().coffer(['export', '-f', 'docker'])).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(/^coffer: --format: docker cannot hold the value of \w+: .*\ntry: another --format/),
    })
    expect(await open().coffer(['export', '--only', 'HOST,ABSENT'])).toMatchObject({
      code: 5,
      out: '',
      err: 'coffer: There is no secret ABSENT in main/api/development, main/shared/development, main/shared/staging.\ntry: coffer secrets list\n',
    })
  })
})

type Read = { readonly id: string; readonly entity: unknown; readonly after: unknown }

/** The newest of the recorded reads, the newest first. */
async function listReads(): Promise<readonly Read[]> {
  const { body } = await running.service.call<Read[]>('GET', '/v1/workspace/main/audit?action=VIEW&limit=50', {
    token: running.session,
  })
  return body
}

/** The audit entries that the work leaves. */
async function readsDuring(act: () => Promise<unknown>): Promise<readonly Read[]> {
  const [newest] = await listReads()
  await act()
  const reads = await listReads()
  return reads.slice(
    0,
    reads.findIndex(({ id }) => id === newest?.id),
  )
}

describe('secrets', () => {
  test('list shows the names that run sets, and the source of each, without reading a value', async () => {
    const [newest] = await listReads()
    const rows = (await textOf(open(), ['secrets', 'list'])).trimEnd().split('\n')
    expect(rows.map((row) => row.split('\t').slice(0, 3))).toEqual([
      ['2ND', 'main/api/development', '1'],
      ['HOST', 'main/shared/development', '1'],
      ['JAVA_OPTS', 'main/shared/development', '1'],
      ['ODD', 'main/shared/development', '1'],
      ['REGION', 'main/shared/development', '1'],
      ['S_HOST', 'main/shared/staging', '1'],
      ['TEXT', 'main/shared/development', '1'],
      ['URL', 'main/api/development', '1'],
    ])
    expect((await listReads())[0]).toEqual(newest)
    const json = JSON.parse(await textOf(open(), ['secrets', 'list', '--json']))
    expect(json[5]).toMatchObject({ name: 'S_HOST', source: 'main/shared/staging' })
  })

  test('list --values --filter shows the values of the names that contain the text', async () => {
    const rows = (await textOf(open(), ['secrets', 'list', '--values', '--filter', 's_h'])).trimEnd().split('\n')
    expect(rows.map((row) => row.split('\t').slice(0, 3))).toEqual([
      ['S_HOST', 'main/shared/staging', 'staging.example.com'],
    ])
    expect(await textOf(open(), ['secrets', 'list', '--values', '--filter', 'url'])).toContain(`\t${merged.URL}\t`)
  })

  test('get reads each key from the source that gives it, and from no other', async () => {
    expect(await textOf(open(), ['secrets', 'get', 'HOST'])).toBe('shared.example.com\n')
    expect(await textOf(open(), ['secrets', 'get', 'S_HOST', 'URL'])).toBe(
      `S_HOST\tstaging.example.com\nURL\t${merged.URL}\n`,
    )
    // The project api has this name too.
    expect(await readsDuring(() => textOf(open(), ['secrets', 'get', 'HOST']))).toMatchObject([
      { entity: { name: 'HOST' }, projectId: sharedId, after: { keys: ['HOST'] } },
    ])
    expect(await readsDuring(() => textOf(open(), ['export', '--only', 'S_HOST,REGION']))).toMatchObject([
      { projectId: sharedId, after: { keys: expect.toSatisfy((keys) => keys.length === 1) } },
      { projectId: sharedId, after: { keys: expect.toSatisfy((keys) => keys.length === 1) } },
    ])
    const json = JSON.parse(await textOf(open(), ['secrets', 'get', 'S_HOST', '--json']))
    expect(json).toMatchObject({ name: 'S_HOST', source: 'main/shared/staging' })
    expect(await open().coffer(['secrets', 'get', 'ABSENT'])).toMatchObject({
      code: 5,
      err: expect.stringContaining('There is no secret ABSENT in main/api/development, main/shared/development'),
    })
  })

  // On a busy machine the service may miss the limit of 300 ms.
  test('names are completed as run sets them', { retry: 5 }, async () => {
    const { out } = await open().coffer(['__complete', '--', 'secrets', 'get', 'S_'])
    expect(out).toBe('S_HOST\t\n')
  })
})

describe('a flag or a variable', () => {
  test('that names a project replaces the sources', async () => {
    expect(await textOf(open(), ['export', '-p', 'api', '--only', 'HOST'])).toBe('HOST=db.example.com\n')
    const shell = open({}, { COFFER_PROJECT: 'shared', COFFER_ENVIRONMENT: 'staging' })
    expect(await textOf(shell, ['secrets', 'get', 'HOST'])).toBe('staging.example.com\n')
    expect(await textOf(shell, ['secrets', 'list'])).toMatch(/^HOST\t1\t/)
  })

  test('that names an environment replaces that of each source', async () => {
    const values = { HOST: 'staging.example.com', S_HOST: 'staging.example.com' }
    expect(JSON.parse(await textOf(open(), ['export', '--json', '-e', 'staging']))).toEqual(values)
    const { code, err } = await open().coffer(['secrets', 'list', '-e', 'staging,development'])
    expect({ code, err }).toEqual({
      code: 2,
      err: 'coffer: Name one environment.\ntry: --environment NAME, or a --project too\n',
    })
  })
})

describe('with sources alone', () => {
  test.each([
    { args: ['secrets', 'set', 'NEW=1'] },
    { args: ['secrets', 'delete', 'HOST', '-y'] },
    { args: ['secrets', 'edit', '-y'] },
    { args: ['secrets', 'get', 'HOST', '--version', '1'] },
    { args: ['secrets', 'list', '--all-environments'] },
    { args: ['import', '-'], input: 'NEW=1\n' },
    { args: ['history'] },
    { args: ['history', 'HOST'] },
    { args: ['diff', 'staging', 'development'] },
    { args: ['promote', 'staging', 'development', '-y'] },
    { args: ['restore', 'HOST@1', '-y'] },
    { args: ['share', 'HOST'] },
  ])('$args is refused, and names the sources', async ({ args, input }) => {
    const shell = open({}, { COFFER_TOKEN: writer, EDITOR: 'true' })
    const { code, out, err } = await shell.coffer(args, input === undefined ? {} : { input })
    expect({ code, out, err }).toEqual({
      code: 2,
      out: '',
      err: 'coffer: This needs one project, not the sources of .coffer.json: api/development, shared/development, shared/staging as S_….\ntry: -p PROJECT -e ENVIRONMENT\n',
    })
  })

  test('a source without an environment is named', async () => {
    for (const command of [['export'], ['secrets', 'list']]) {
      const { code, err } = await open({ environment: undefined }).coffer(command)
      expect({ code, err }).toEqual({
        code: 2,
        err: 'coffer: sources[0] of .coffer.json has no environment, and nothing else names one.\ntry: set COFFER_ENVIRONMENT\n',
      })
    }
  })
})

test('a project and an environment beside the sources are where commands write', async () => {
  const shell = open({ project: 'api', environment: 'staging' }, { COFFER_TOKEN: writer })
  const { code, err } = await shell.coffer(['secrets', 'set', 'WRITTEN', '--stdin'], { input: 'yes' })
  expect(code, err).toBe(0)
  // Reads go on to merge.
  expect(await textOf(shell, ['secrets', 'get', 'HOST'])).toBe('staging.example.com\n')
  expect(await textOf(shell, ['secrets', 'get', 'WRITTEN', '-p', 'api', '-e', 'staging'])).toBe('yes\n')
  expect(await textOf(shell, ['history', 'WRITTEN'])).toMatch(/^1\t/)
})
