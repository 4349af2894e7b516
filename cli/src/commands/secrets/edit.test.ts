/** `coffer secrets edit` against the real service, with scripts as editors. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openShell } from '../../../../test/cli.ts'
import { type SdkService, startSdkService } from '../../../../test/sdk-service.ts'
import { until } from '../../../../test/wait.ts'

let running: SdkService
const project = '/v1/workspace/main/project/api'
const canary = 'c4n4ry-value'
let environments = 0

async function post(path: string, body: unknown): Promise<void> {
  const { status, text } = await running.service.call('POST', `${project}/${path}`, { token: running.session, body })
  expect(status, text).toBeLessThan(300)
}

const write = (environment: string, values: Readonly<Record<string, string>>) =>
  post('secret', {
    environments: [environment],
    secrets: Object.entries(values).map(([key, value]) => ({ key, value })),
    mode: 'upsert',
  })

async function valuesOf(environment: string): Promise<Record<string, string>> {
  const path = `${project}/secret/export?format=json&environmentId=${environment}`
  return (await running.service.call<Record<string, string>>('GET', path, { token: running.session })).body
}

beforeAll(async () => {
  running = await startSdkService()
})
afterAll(() => running.stop())

const stored = { KEEP: 'same', CHANGE: `${canary} old`, DROP: 'x', LINES: 'a\nb\u001b' }

/** A new environment with values, and an editor that runs a script; `$1` is the file. */
async function prepare(script: string, env: Record<string, string | undefined> = {}) {
  const environment = `edit${++environments}`
  await post('environment', { name: environment })
  await write(environment, stored)
  const runtime = mkdtempSync(join(tmpdir(), 'coffer-runtime-'))
  onTestFinished(() => rmSync(runtime, { recursive: true, force: true }))
  const memory = join(runtime, 'memory')
  mkdirSync(memory, { mode: 0o700 })
  const editor = join(runtime, 'editor')
  writeFileSync(editor, `#!/bin/sh\nexec 2>>'${runtime}/editor-errors'\n${script}\n`)
  chmodSync(editor, 0o700)
  const shell = openShell({
    ...running.env,
    COFFER_TOKEN: running.session,
    COFFER_ENVIRONMENT: environment,
    XDG_RUNTIME_DIR: memory,
    EDITOR: editor,
    RUNTIME: runtime,
    ...env,
  })
  return { shell, environment, runtime, left: () => readdirSync(memory) }
}

const changeAll = `sed -i -e "s/^CHANGE=.*/CHANGE='${canary} new'/" -e /^DROP=/d "$1"; echo 'ADD=1' >> "$1"`

test('writes only what changed, in one step, and prints no value', async () => {
  const { shell, environment, runtime, left } = await prepare(
    `stat -c '%a %n' "$1" "$(dirname "$1")" > "$RUNTIME/modes"; cp "$1" "$RUNTIME/seen"; ${changeAll}`,
  )
  const { code, out, err } = await shell.coffer(['secrets', 'edit', '-y', '-m', 'edited'])
  expect({ code, err }).toEqual({ code: 0, err: '  create   ADD\n  update   CHANGE\n  delete   DROP\n' })
  expect(out).toBe(
    `ADD\t${environment}\tcreated\t1\nCHANGE\t${environment}\tupdated\t2\nDROP\t${environment}\tdeleted\t2\n`,
  )
  expect(await valuesOf(environment)).toEqual({ ADD: '1', CHANGE: `${canary} new`, KEEP: 'same', LINES: 'a\nb\u001b' })
  expect(readFileSync(join(runtime, 'modes'), 'utf8')).toMatch(/^600 .*\/memory\/coffer-.*\n700 .*\n$/)
  expect(readFileSync(join(runtime, 'seen'), 'utf8')).toContain(`KEEP=same\nLINES="a\nb\\u001b"\n`)
  expect(left()).toEqual([])
})

test('prints the difference only with --diff-only, and asks for nothing', async () => {
  const { shell, environment, left } = await prepare(changeAll)
  const { code, out } = await shell.coffer(['secrets', 'edit', '--diff-only'])
  expect({ code, out }).toEqual({ code: 0, out: 'added\tADD\nchanged\tCHANGE\nremoved\tDROP\n' })
  const json = await shell.coffer(['secrets', 'edit', '--diff-only', '--json'])
  expect(JSON.parse(json.out)).toEqual({
    added: ['ADD'],
    changed: ['CHANGE'],
    removed: ['DROP'],
    same: ['KEEP', 'LINES'],
  })
  expect(await valuesOf(environment)).toEqual(stored)
  expect(left()).toEqual([])
})

test.each([
  { name: 'an editor that changes nothing', script: 'true', code: 0, err: 'Nothing to write.\n' },
  {
    name: 'an editor that fails',
    script: 'exit 3',
    code: 1,
    err: 'coffer: The editor ended with exit code 3: nothing was changed.\n',
  },
  {
    name: 'an editor that crashes',
    script: 'kill -SEGV $$',
    code: 1,
    err: 'coffer: The editor ended with SIGSEGV: nothing was changed.\n',
  },
  { name: 'an empty file', script: ': > "$1"', code: 130, err: 'coffer: The file is empty: nothing was changed.\n' },
  {
    name: 'a removed file',
    script: 'rm "$1"',
    code: 1,
    err: 'coffer: The editor has removed the file: nothing was changed.\n',
  },
  {
    name: 'a text that cannot be read',
    script: `echo '${canary}' >> "$1"`,
    code: 2,
    err: expect.stringMatching(/^coffer: Line \d+: expected KEY=value\.\n$/),
  },
  {
    name: 'a file in another encoding',
    script: `printf 'ADD=\\344\\n' >> "$1"`,
    code: 2,
    err: 'coffer: The editor has not saved the file as UTF-8.\n',
  },
  {
    name: 'backups beside the file',
    script: 'cp "$1" "$1~"; mkdir "$(dirname "$1")/d"; cp "$1" "$(dirname "$1")/d/x"',
    code: 0,
    err: 'Nothing to write.\n',
  },
])('$name leaves nothing behind', async ({ script, code, err }) => {
  const { shell, environment, left } = await prepare(script)
  expect(await shell.coffer(['secrets', 'edit', '-y'])).toMatchObject({ code, out: '', err })
  expect(await valuesOf(environment)).toEqual(stored)
  expect(left()).toEqual([])
})

test.each(['SIGTERM', 'SIGHUP', 'SIGINT'] as const)('%s ends the editor and removes the file', async (signal) => {
  const { shell, runtime, left } = await prepare(`echo $$ > "$RUNTIME/pid"; exec sleep 300`)
  const started = shell.start(['secrets', 'edit', '-y'])
  const pid = await until(
    () => (existsSync(join(runtime, 'pid')) && Number(readFileSync(join(runtime, 'pid'), 'utf8'))) || undefined,
    120_000,
    'the editor runs',
  )
  expect(left()).toHaveLength(1)
  started.child.kill(signal)
  const { code } = await started.ended
  expect(code).toBe({ SIGTERM: 143, SIGHUP: 129, SIGINT: 130 }[signal])
  expect(left()).toEqual([])
  await until(() => !existsSync(`/proc/${pid}`) || undefined, 120_000, 'the editor has ended')
})

test('Ctrl-C in the terminal ends the editor once, and removes the file', async () => {
  const { shell, runtime, left } = await prepare(`echo $$ > "$RUNTIME/pid"; exec sleep 300`)
  const session = shell.terminal(['secrets', 'edit'])
  await until(() => existsSync(join(runtime, 'pid')) || undefined, 120_000, 'the editor runs')
  session.type('\u0003')
  expect(await session.ended).toMatchObject({ code: 130 })
  expect(left()).toEqual([])
})

describe('on a terminal', () => {
  test('asks before it writes; discarding leaves everything as it was', async () => {
    const { shell, environment, left } = await prepare(changeAll)
    const discarded = shell.terminal(['secrets', 'edit'])
    await discarded.see('update   CHANGE')
    await discarded.see(`Write these changes to ${environment}?`)
    discarded.type('\u0003')
    expect(await discarded.ended).toMatchObject({ code: 130 })
    expect(await valuesOf(environment)).toEqual(stored)
    expect(left()).toEqual([])
    const written = shell.terminal(['secrets', 'edit'])
    await written.see('Write these changes')
    written.type('\r')
    expect(await written.ended).toMatchObject({ code: 0 })
    expect(written.screen()).not.toContain(canary)
    expect((await valuesOf(environment)).CHANGE).toBe(`${canary} new`)
    expect(left()).toEqual([])
  })

  test('a change by somebody else is a conflict, and the edited text comes again', async () => {
    const { shell, environment, runtime, left } = await prepare(
      `if [ -e "$RUNTIME/again" ]; then cp "$1" "$RUNTIME/again"; else touch "$RUNTIME/again"; ${changeAll}; fi`,
    )
    const session = shell.terminal(['secrets', 'edit'])
    await session.see('Write these changes')
    await write(environment, { CHANGE: 'theirs', KEEP: 'also theirs' })
    session.type('\r')
    await session.see('CHANGE is at version 2 now')
    await session.see('Nothing was written.')
    expect((await valuesOf(environment)).CHANGE).toBe('theirs')
    session.type('\r')
    await session.see('Write these changes')
    session.type('\r')
    expect(await session.ended).toMatchObject({ code: 0 })
    const again = readFileSync(join(runtime, 'again'), 'utf8')
    expect(again).toContain('# Changed by others meanwhile: CHANGE.')
    expect(again).toContain(`# Changed by others, to "theirs"; yours:\nCHANGE='${canary} new'\n`)
    expect(again).toContain(`KEEP='also theirs'\n`)
    expect(again).not.toMatch(/^DROP=/m)
    const { DROP: _, ...kept } = stored
    expect(await valuesOf(environment)).toEqual({ ...kept, ADD: '1', CHANGE: `${canary} new`, KEEP: 'also theirs' })
    expect(left()).toEqual([])
  })

  test('a text that cannot be read comes again as it was', async () => {
    const { shell, environment, left } = await prepare(
      `if [ -e "$RUNTIME/again" ]; then sed -i '/^broken$/d' "$1"; else touch "$RUNTIME/again"; ${changeAll}; echo broken >> "$1"; fi`,
    )
    const session = shell.terminal(['secrets', 'edit'])
    await session.see('expected KEY=value.')
    await session.see('Nothing was written.')
    session.type('\r')
    await session.see('Write these changes')
    session.type('\r')
    expect(await session.ended).toMatchObject({ code: 0 })
    expect((await valuesOf(environment)).ADD).toBe('1')
    expect(left()).toEqual([])
  })
})

test('a conflict without a person to ask ends with 6, and nothing is written', async () => {
  const { shell, environment, left } = await prepare(
    `curl -sf -X POST "$COFFER_URL${project}/secret" -H "Authorization: Bearer $COFFER_TOKEN" -H 'Content-Type: application/json' \\
      -d '{"environments":["'"$COFFER_ENVIRONMENT"'"],"secrets":[{"key":"CHANGE","value":"theirs"}],"mode":"upsert"}' > /dev/null; ${changeAll}`,
  )
  const { code, err } = await shell.coffer(['secrets', 'edit', '-y', '-q'])
  expect({ code, err }).toEqual({ code: 6, err: 'coffer: CHANGE is at version 2 now: read it again.\n' })
  expect(await valuesOf(environment)).toEqual({ ...stored, CHANGE: 'theirs' })
  expect(left()).toEqual([])
})

test('a read-only token is refused, and the file is removed', async () => {
  const { shell, environment, left } = await prepare(changeAll, { COFFER_TOKEN: running.token })
  expect(await shell.coffer(['secrets', 'edit', '-y'])).toMatchObject({ code: 4, out: '' })
  expect(await valuesOf(environment)).toEqual(stored)
  expect(left()).toEqual([])
})

test.each([
  { args: [], env: {}, err: 'There is nobody to ask here whether to write.\ntry: --yes, or --diff-only' },
  { args: ['-y'], env: { EDITOR: '' }, err: 'There is no editor: EDITOR is not set.\ntry: export EDITOR=nano' },
])('refuses $args with $env', async ({ args, env, err }) => {
  const { shell } = await prepare(changeAll, env)
  expect(await shell.coffer(['secrets', 'edit', ...args])).toMatchObject({ code: 2, out: '', err: `coffer: ${err}\n` })
})

test('VISUAL comes first, and may have arguments', async () => {
  const { shell, environment } = await prepare('exit 1', { VISUAL: 'sed -i s/^KEEP=same/KEEP=other/' })
  expect(await shell.coffer(['secrets', 'edit', '-y'])).toMatchObject({ code: 0 })
  expect((await valuesOf(environment)).KEEP).toBe('other')
})

test('a command with quotes goes through the shell', async () => {
  const { shell, environment } = await prepare('exit 1', { VISUAL: `sed -i -e 's/^KEEP=same/KEEP="two words"/'` })
  expect(await shell.coffer(['secrets', 'edit', '-y'])).toMatchObject({ code: 0 })
  expect((await valuesOf(environment)).KEEP).toBe('two words')
})

test('an editor that does not exist is named as the problem', async () => {
  const { shell, left } = await prepare('', { EDITOR: '/nonexistent/editor' })
  expect(await shell.coffer(['secrets', 'edit', '-y'])).toMatchObject({
    code: 1,
    err: 'coffer: The editor cannot be started (ENOENT).\ntry: export EDITOR=nano\n',
  })
  expect(left()).toEqual([])
})
