/** `coffer diff`, `promote`, `history` and `restore` against the real service. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openShell } from '../../../test/cli.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'

let running: SdkService
const project = '/v1/workspace/main/project/api'
const canary = 'c4n4ry-value'

async function post(path: string, body: unknown): Promise<void> {
  const { status, text } = await running.service.call('POST', `${project}/${path}`, { token: running.session, body })
  expect(status, text).toBeLessThan(300)
}

async function fill(environment: string, values: Readonly<Record<string, string>>, message?: string): Promise<void> {
  const secrets = Object.entries(values).map(([key, value]) => ({ key, value }))
  await post('secret', { environments: [environment], secrets, mode: 'upsert', ...(message && { message }) })
}

async function valuesOf(environment: string): Promise<Record<string, string>> {
  const path = `${project}/secret/export?format=json&environmentId=${encodeURIComponent(environment)}`
  return (await running.service.call<Record<string, string>>('GET', path, { token: running.session })).body
}

beforeAll(async () => {
  running = await startSdkService()
  await fill('development', { SAME: '1', CHANGED: `${canary} old`, GONE: 'x' }, 'first\u001b[31m')
  await fill('staging', { SAME: '1', CHANGED: `${canary} new`, FRESH: 'y\nz' })
})
afterAll(() => running.stop())

const shellOf = (env: Record<string, string | undefined> = {}) =>
  openShell({ ...running.env, COFFER_TOKEN: running.session, ...env })

describe('diff', () => {
  test('names what differs, without values', async () => {
    const { code, out, err } = await shellOf().coffer(['diff', 'development', 'staging'])
    expect({ code, out, err }).toEqual({
      code: 0,
      out: 'changed\tCHANGED\nadded\tFRESH\nremoved\tGONE\n',
      err: '3 differences, 1 the same.\n',
    })
  })

  test('shows values when asked, and the object of the API', async () => {
    const shell = shellOf()
    const { out } = await shell.coffer(['diff', 'development', 'staging', '--values', '-q'])
    expect(out).toBe(`changed\tCHANGED\t${canary} old\t${canary} new\nadded\tFRESH\t\ty\\nz\nremoved\tGONE\tx\t\n`)
    const json = await shell.coffer(['diff', 'development', 'staging', '--json'])
    expect(JSON.parse(json.out)).toEqual({ added: ['FRESH'], removed: ['GONE'], changed: ['CHANGED'], same: ['SAME'] })
  })

  test('compares revisions and times', async () => {
    const shell = shellOf()
    expect((await shell.coffer(['diff', 'development@0', 'development@1', '-q'])).out).toBe(
      'added\tCHANGED\nadded\tGONE\nadded\tSAME\n',
    )
    const past = await shell.coffer(['diff', 'development@2020-01-01', 'development@2020-01-01T12:00:00+02:00'])
    expect(past).toMatchObject({ code: 0, out: '', err: '0 differences, 0 the same.\n' })
  })

  test.each([
    { args: ['development', 'staging', '--exit-code', '-q'], code: 1, err: '' },
    { args: ['staging', 'staging', '--exit-code', '-q'], code: 0, err: '' },
    { args: ['development'], code: 2, err: 'coffer: An argument is missing.\ntry: coffer diff FROM TO\n' },
    { args: ['development', 'nowhere'], code: 5, err: expect.stringContaining('There is no environment nowhere') },
    { args: ['development@99', 'staging'], code: 5, err: 'coffer: There is no such revision.\ntry: coffer history\n' },
    {
      args: ['development@yesterday', 'staging'],
      code: 2,
      err: expect.stringContaining('must be a revision or a time'),
    },
    {
      args: ['development@2026-02-30', 'staging'],
      code: 2,
      err: expect.stringContaining('must be a revision or a time'),
    },
    { args: ['development@1@2', 'staging'], code: 2, err: expect.stringContaining('NAME@REVISION') },
    { args: ['@1', 'staging'], code: 2, err: expect.stringContaining('NAME@REVISION') },
  ])('$args ends with $code', async ({ args, code, err }) => {
    expect(await shellOf().coffer(['diff', ...args])).toMatchObject({ code, err })
  })
})

describe('promote', () => {
  test('shows the plan, changes nothing in a dry run, and then does what was shown', async () => {
    const shell = shellOf()
    const before = await valuesOf('production')
    const dry = await shell.coffer(['promote', 'staging', 'production', '--dry-run', '--json'])
    const { diff, results } = JSON.parse(dry.out)
    expect(results).toHaveLength(3)
    expect(dry.err).toContain(`The digest of this plan: ${diff}\n`)
    expect(await valuesOf('production')).toEqual(before)

    const done = await shell.coffer(['promote', 'staging', 'production', '--keys', 'FRESH', '-y', '-m', 'release'])
    expect(done).toMatchObject({
      code: 0,
      out: 'FRESH\tproduction\tcreated\t1\n',
      err: 'staging to production of api:\n  create   FRESH\n',
    })
    const stale = await shell.coffer(['promote', 'staging', 'production', '--if-diff', diff, '-y'])
    expect(stale).toMatchObject({ code: 6, out: '' })
    expect(await valuesOf('production')).toEqual({ FRESH: 'y\nz' })
    const again = await shell.coffer(['promote', 'staging', 'production', '--keys', 'FRESH', '-y'])
    expect(again).toMatchObject({ code: 0, out: 'FRESH\tproduction\tunchanged\t1\n', err: 'Nothing to promote.\n' })
  })

  test('a change between the plan and the answer is a conflict, and nothing is copied', async () => {
    await post('environment', { name: 'target' })
    const session = shellOf().terminal(['promote', 'staging', 'target'])
    await session.see('create   CHANGED')
    await session.see('Promote 3 secrets to target?')
    await fill('staging', { SAME: '2' })
    session.type('y')
    expect(await session.ended).toMatchObject({ code: 6 })
    expect(session.screen()).not.toContain(canary)
    expect(await valuesOf('target')).toEqual({})
    const agreed = shellOf().terminal(['promote', 'staging', 'target', '--mode', 'create'])
    await agreed.see('Promote 3 secrets to target?')
    agreed.type('y')
    expect(await agreed.ended).toMatchObject({ code: 0 })
    expect(await valuesOf('target')).toEqual(await valuesOf('staging'))
    expect(await shellOf().coffer(['promote', 'staging', 'target', '--mode', 'create', '-y'])).toMatchObject({
      code: 6,
    })
  })

  test.each([
    { args: ['staging', 'nowhere', '-y'], code: 5, err: 'There is no environment nowhere' },
    { args: ['nowhere', 'staging', '-y'], code: 5, err: 'There is no environment nowhere' },
    { args: ['staging', 'production', '--keys', 'FRESH,LOST', '-y'], code: 5, err: 'LOST is not in staging.' },
    { args: ['staging', 'staging', '-y'], code: 2, err: 'FROM and TO must be two environments.' },
    { args: ['staging', 'production', '--mode', 'all'], code: 2, err: '--mode must be one of' },
    { args: ['staging', 'production', '--keys', 'A,,B'], code: 2, err: '--keys must be a list' },
    { args: ['staging', 'development'], code: 2, err: 'There is nobody to ask here: Promote' },
  ])('refuses $args', async ({ args, code, err }) => {
    const before = await valuesOf('development')
    expect(await shellOf().coffer(['promote', ...args])).toMatchObject({
      code,
      out: '',
      err: expect.stringContaining(err),
    })
    expect(await valuesOf('development')).toEqual(before)
  })

  test('a read-only token is refused', async () => {
    const shell = shellOf({ COFFER_TOKEN: running.token })
    expect(await shell.coffer(['promote', 'staging', 'development', '-y'])).toMatchObject({ code: 4, out: '' })
  })
})

describe('history', () => {
  beforeAll(async () => {
    await post('environment', { name: 'past' })
    for (const value of ['one', 'two', `${canary}\u001b[2J`])
      await fill('past', { KEY: value }, `to ${value.slice(0, 3)}`)
    await post('secret/batch', {
      environmentId: 'past',
      operations: [
        { op: 'delete', key: 'KEY' },
        { op: 'set', key: 'NEXT', value: 'x' },
      ],
    })
  })

  test('lists revisions with their changes, newest first', async () => {
    const shell = shellOf()
    const { code, out } = await shell.coffer(['history', '-e', 'past'])
    expect(code).toBe(0)
    const rows = out
      .trimEnd()
      .split('\n')
      .map((line) => line.split('\t'))
    expect(rows.map(([revision, , , changes]) => [revision, changes])).toEqual([
      ['4', '-KEY +NEXT'],
      ['3', '~KEY'],
      ['2', '~KEY'],
      ['1', '+KEY'],
    ])
    expect((await shell.coffer(['history', '-e', 'past', '--limit', '2'])).out.trimEnd().split('\n')).toHaveLength(2)
    expect(JSON.parse((await shell.coffer(['history', '-e', 'past', '--json'])).out)[0]).toMatchObject({ revision: 4 })
  })

  test('lists versions, with values only when asked', async () => {
    const shell = shellOf({ COFFER_ENVIRONMENT: 'past' })
    const plain = await shell.coffer(['history', 'KEY'])
    expect(plain.out).not.toContain(canary)
    expect(
      plain.out
        .trimEnd()
        .split('\n')
        .map((line) => line.split('\t')[3]),
    ).toEqual(['deleted', 'written', 'written', 'written'])
    const { out } = await shell.coffer(['history', 'KEY', '--values', '--limit', '3'])
    expect(
      out
        .trimEnd()
        .split('\n')
        .map((line) => line.split('\t')[4]),
    ).toEqual(['', `${canary}\u001b[2J`, 'two'])
  })

  test('no message or value steers the terminal', async () => {
    const shell = shellOf()
    const revisions = shell.terminal(['history'])
    expect((await revisions.ended).out).not.toContain('\u001b[31m')
    expect(revisions.screen()).toContain('first\\u001b[31m')
    const versions = await shell.terminal(['history', 'KEY', '--values', '-e', 'past']).ended
    expect(versions.out).not.toContain('\u001b[2J')
    expect(versions.out).toContain(`${canary}\\u001b[2J`)
  })

  test('reads page after page', async () => {
    await post('environment', { name: 'long' })
    for (let value = 0; value < 205; value++) await fill('long', { COUNT: String(value) })
    const { out } = await shellOf().coffer(['history', '-e', 'long', '--limit', '1000', '--json'])
    expect(JSON.parse(out)).toHaveLength(205)
  })

  test.each([
    { args: ['--values'], code: 2, err: '--values needs a KEY.' },
    { args: ['--limit', '0'], code: 2, err: '--limit must be' },
    { args: ['ABSENT'], code: 5, err: 'There is no secret ABSENT in development.' },
    { args: ['-e', 'nowhere'], code: 5, err: 'There is no environment nowhere' },
  ])('refuses $args', async ({ args, code, err }) => {
    expect(await shellOf().coffer(['history', ...args])).toMatchObject({
      code,
      out: '',
      err: expect.stringContaining(err),
    })
  })
})

describe('restore', () => {
  beforeAll(async () => {
    await post('environment', { name: 'undo' })
    await fill('undo', { R: 'first', S: 'kept' })
    await fill('undo', { R: canary, T: 'later' })
  })

  test('brings one value back as a new version', async () => {
    const shell = shellOf({ COFFER_ENVIRONMENT: 'undo' })
    const dry = await shell.coffer(['restore', 'R@1', '--dry-run'])
    expect(dry).toMatchObject({ code: 0, out: 'R\tundo\t1\t3\n', err: 'Nothing was changed.\n' })
    expect((await valuesOf('undo')).R).toBe(canary)
    const done = await shell.coffer(['restore', 'R@1', '-y'])
    expect(done).toMatchObject({ code: 0, out: 'R\tundo\trestored\t3\n', err: '' })
    expect((await valuesOf('undo')).R).toBe('first')
  })

  test('brings the environment back to a revision, after the question', async () => {
    const shell = shellOf({ COFFER_ENVIRONMENT: 'undo' })
    const dry = await shell.coffer(['restore', '--revision', '2', '--dry-run', '--json'])
    expect(JSON.parse(dry.out).results).toContainEqual(expect.objectContaining({ key: 'R', status: 'updated' }))
    const late = shell.terminal(['restore', '--revision', '1'])
    await late.see('Bring undo back to revision 1?')
    await fill('undo', { LATE: 'not in the plan' })
    late.type('y')
    expect(await late.ended).toMatchObject({ code: 6 })
    expect(late.screen()).toContain('Somebody has changed undo meanwhile: nothing was restored.')
    expect(await valuesOf('undo')).toMatchObject({ LATE: 'not in the plan' })
    const session = shell.terminal(['restore', '--revision', '1', '-m', 'back'])
    await session.see('delete   T')
    await session.see('Bring undo back to revision 1?')
    session.type('y')
    expect(await session.ended).toMatchObject({ code: 0 })
    expect(await valuesOf('undo')).toEqual({ R: 'first', S: 'kept' })
    expect(await shell.coffer(['restore', '--revision', '1', '-y'])).toMatchObject({
      code: 0,
      err: 'Nothing to restore.\n',
    })
  })

  test.each([
    { args: [], code: 2, err: 'Give KEY@N or --revision R.' },
    { args: ['R@1', '--revision', '1'], code: 2, err: 'Give KEY@N or --revision R.' },
    { args: ['R'], code: 2, err: 'The version is missing.' },
    { args: ['R@0', '-y'], code: 2, err: 'N must be a whole number from 1 on.' },
    { args: ['R@1'], code: 2, err: 'There is nobody to ask here' },
    { args: ['R@99', '-y'], code: 5, err: 'R has no version 99.' },
    { args: ['ABSENT@1', '-y'], code: 5, err: 'There is no secret ABSENT@1 in undo.' },
    { args: ['--revision', '99', '-y'], code: 5, err: 'undo has no revision 99.' },
    { args: ['--revision', 'x', '-y'], code: 2, err: '--revision must be a whole number from 0 on.' },
  ])('refuses $args', async ({ args, code, err }) => {
    const shell = shellOf({ COFFER_ENVIRONMENT: 'undo' })
    expect(await shell.coffer(['restore', ...args])).toMatchObject({ code, out: '', err: expect.stringContaining(err) })
  })

  test('a read-only token is refused', async () => {
    const shell = shellOf({ COFFER_ENVIRONMENT: 'undo', COFFER_TOKEN: running.token })
    expect(await shell.coffer(['restore', 'R@2', '-y'])).toMatchObject({ code: 4, out: '' })
    expect(await shell.coffer(['restore', '--revision', '2', '-y'])).toMatchObject({ code: 4, out: '' })
  })
})
