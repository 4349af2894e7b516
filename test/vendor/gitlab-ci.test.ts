import { Gitlab } from '@gitbeaker/rest'
import { describe, expect, test } from 'vitest'
import { gitlabCi } from '../../server/src/providers/gitlab-ci.ts'
import { ownerText } from '../../server/src/providers/provider.ts'
import { describeProvider } from './conformance.ts'
import { fakeGitLab, type GitLabOptions, type Variable } from './fake/gitlab-ci.ts'
import { type FakeRequest, startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

const names = ['ALPHA', 'BETA', 'GAMMA'] as const
describeProvider(gitlabCi, fakeGitLab, { names })
describe('a group', () => describeProvider(gitlabCi, () => fakeGitLab({ kind: 'group' }), { names }))
describe('a self-hosted server', () =>
  describeProvider(gitlabCi, () => fakeGitLab({ baseUrl: 'https://gitlab.example.test' }), { names }))

const start = async (options?: GitLabOptions) => {
  const fake = fakeGitLab(options)
  const running = await startFake(fake)
  return { fake, running, connection: connectionTo(running) }
}
const foreign = (key: string, environment_scope: string): Variable => ({
  key,
  value: 'foreign',
  variable_type: 'env_var',
  protected: false,
  masked: false,
  hidden: false,
  raw: false,
  environment_scope,
  description: null,
})

/** GitLab accepts parameters in the query and in the body; gitbeaker puts the filter into the body. */
const wire = ({ method, path, query, json }: FakeRequest) => {
  const { filter, ...body } = Object(json) as Record<string, unknown> & { filter?: Record<string, string> }
  const { 'filter[environment_scope]': asked, ...rest } = Object.fromEntries(query)
  const scope = asked ?? filter?.environment_scope
  return { method, path, scope, params: { ...rest, ...body } }
}

test.each(['project', 'group'] as const)(
  'gitbeaker works against the fake of a %s and sends the same requests as we do',
  async (kind) => {
    const theirs = await startFake(fakeGitLab({ kind }), { plain: true })
    const client = new Gitlab({ host: theirs.url, token: theirs.fake.credential.token ?? '' })
    const variables = kind === 'group' ? client.GroupVariables : client.ProjectVariables
    const id = kind === 'group' ? '9' : '42'
    const { running: ours, connection } = await start({ kind })
    const filter = { environment_scope: 'production' }
    const attributes = { raw: true, protected: false, variableType: 'env_var', masked: true } as const

    await applyAll(gitlabCi, connection, [create('ALPHA', 'first-value')])
    await applyAll(gitlabCi, connection, [update('ALPHA', 'second-value')])
    await listAll(gitlabCi, connection)
    await applyAll(gitlabCi, connection, [remove({ name: 'ALPHA' })])

    const description = ownerText(connection.syncId)
    await variables.create(id, 'ALPHA', 'first-value', { ...attributes, environmentScope: 'production', description })
    if (kind === 'group') await variables.show(id, 'ALPHA', { filter })
    await variables.edit(id, 'ALPHA', 'second-value', { ...attributes, filter })
    const [variable] = await variables.all(id, { perPage: 100 })
    expect(variable).toMatchObject({ key: 'ALPHA', value: 'second-value', masked: true, raw: true })
    if (kind === 'group') await variables.show(id, 'ALPHA', { filter })
    await variables.remove(id, 'ALPHA', { filter })

    expect(ours.requests.map(wire)).toEqual(theirs.requests.map(wire))
    expect(theirs.fake.state()).toEqual(new Map())
    expect([...ours.fake.violations, ...theirs.fake.violations]).toEqual([])
    await Promise.all([theirs.close(), ours.close()])
  },
)

test.each(['project', 'group'] as const)(
  'in a %s, variables of other scopes are neither listed nor changed',
  async (kind) => {
    const { fake, running, connection } = await start({ kind })
    fake.variables.push(foreign('ALPHA', '*'), foreign('ALPHA', 'staging'))
    expect(await listAll(gitlabCi, connection)).toEqual([])
    await applyAll(gitlabCi, connection, [create('ALPHA', 'one'), update('ALPHA', 'two')])
    expect(fake.state()).toEqual(new Map([['ALPHA', 'two']]))
    await applyAll(gitlabCi, connection, [remove({ name: 'ALPHA' })])
    await applyAll(gitlabCi, connection, [remove({ name: 'ALPHA' })])
    // An update re-creates a missing variable beside those of other scopes.
    await applyAll(gitlabCi, connection, [update('ALPHA', 'three')])
    expect(fake.variables.map(({ value, environment_scope: scope }) => `${scope} ${value}`)).toEqual([
      '* foreign',
      'staging foreign',
      'production three',
    ])
    await running.close()
  },
)

test('if the server ignores a group’s filter, variables of other scopes stay unchanged', async () => {
  const { fake, running, connection } = await start({ kind: 'group', ignoresFilter: true })
  fake.variables.push(foreign('ALPHA', '*'))
  await applyAll(gitlabCi, connection, [remove({ name: 'ALPHA' })])
  expect(fake.variables).toEqual([foreign('ALPHA', '*')])
  await applyAll(gitlabCi, connection, [update('ALPHA', 'one')])
  expect(fake.state()).toEqual(new Map([['ALPHA', 'one']]))
  const [result] = await applyAll(gitlabCi, connection, [update('ALPHA', 'two')])
  expect(result).toMatchObject({ fault: { kind: 'conflict' } })
  expect(fake.variables[0]).toEqual(foreign('ALPHA', '*'))
  await running.close()
})

test('a group that drops the scope gets no variable for all environments', async () => {
  const { fake, running, connection } = await start({ kind: 'group', isFreePlan: true })
  const [result] = await applyAll(gitlabCi, connection, [create('ALPHA', 'one')])
  expect(result).toMatchObject({ name: 'ALPHA', fault: { kind: 'invalid' } })
  expect(fake.variables).toEqual([])
  await running.close()
})

test('a foreign variable is a conflict; our own one, or one of the same value, is not', async () => {
  const { fake, running, connection } = await start()
  fake.tamper('ALPHA', 'foreign')
  const [result] = await applyAll(gitlabCi, connection, [create('ALPHA', 'one')])
  expect(result).toMatchObject({ name: 'ALPHA', fault: { kind: 'conflict' } })
  expect(fake.state().get('ALPHA')).toBe('foreign')
  expect(await applyAll(gitlabCi, connection, [create('ALPHA', 'foreign')])).toEqual([
    { name: 'ALPHA', note: 'The value is not masked in job logs.' },
  ])
  await applyAll(gitlabCi, connection, [create('BETA', 'one')])
  const [again] = await applyAll(gitlabCi, connection, [create('BETA', 'two')])
  expect(again).not.toHaveProperty('fault')
  expect(fake.state().get('BETA')).toBe('two')
  await running.close()
})

const long = 'a-long-$value-with-$signs'
test.each([
  ['try', long, true, undefined],
  ['try', 'short', false, 'The value is not masked in job logs.'],
  ['try', 'two words, long enough', false, 'The value is not masked in job logs.'],
  ['off', long, false, undefined],
  ['require', long, true, undefined],
])('with mask %s, %j is masked: %s', async (masked, value, isMasked, note) => {
  const { fake, running } = await start()
  const connection = connectionTo(running, { options: { masked, protected: 'yes', type: 'file' } })
  const [result] = await applyAll(gitlabCi, connection, [create('ALPHA', value)])
  expect(result).toEqual({ name: 'ALPHA', ...(note !== undefined && { note }) })
  expect(fake.variables).toMatchObject([{ value, masked: isMasked, raw: true, protected: true, variable_type: 'file' }])
  await running.close()
})

test('a value that must be masked and cannot be is rejected before it is sent, and by GitLab', async () => {
  expect(gitlabCi.limits.refuseValue?.('short', { masked: 'require' })).toMatch(/^cannot be masked/)
  expect(gitlabCi.limits.refuseValue?.('short', { masked: 'try' })).toBeUndefined()
  const { fake, running } = await start()
  const connection = connectionTo(running, { options: { masked: 'require' } })
  const [result] = await applyAll(gitlabCi, connection, [create('ALPHA', 'short')])
  expect(result).toMatchObject({
    fault: { kind: 'invalid', facts: { vendorMessage: '{"value":["short is invalid"]}' } },
  })
  expect(String(result && 'fault' in result && result.fault.message)).not.toContain('short')
  expect(fake.state()).toEqual(new Map())
  await running.close()
})

test('a server that cannot mask the value stores it unmasked, and the result says so', async () => {
  const { fake, running, connection } = await start({ masksLess: true })
  expect(await applyAll(gitlabCi, connection, [create('ALPHA', long)])).toEqual([
    { name: 'ALPHA', note: 'The value is not masked in job logs.' },
  ])
  expect(fake.variables).toMatchObject([{ value: long, masked: false }])
  await running.close()
})

test('hidden variables have no value, and variables of old servers no owner', async () => {
  const { fake, running, connection } = await start()
  fake.variables.push({ ...foreign('ALPHA', 'production'), hidden: true })
  expect(await listAll(gitlabCi, connection)).toEqual([{ name: 'ALPHA', isOurs: false }])
  const { description: _, ...old } = foreign('BETA', 'production')
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body: [old] } })
  expect(await listAll(gitlabCi, connection)).toEqual([{ name: 'BETA', value: 'foreign' }])
  await running.close()
})

test('a delete in a deleted project fails; a full project is a quota fault', async () => {
  const { running, connection } = await start()
  running.fake.setTarget(false)
  await expect(applyAll(gitlabCi, connection, [remove({ name: 'ALPHA' })])).rejects.toMatchObject({ kind: 'gone' })
  const body = { message: { base: ['Maximum number of project ci variables (8000) exceeded'] } }
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 400, body } })
  const [result] = await applyAll(gitlabCi, connection, [create('ALPHA', 'one')])
  expect(result).toMatchObject({ fault: { kind: 'quota' } })
  await running.close()
})

test.each([
  ['project', 'acme/../admin'],
  ['project', '..'],
  ['project', 'acme/shop?x'],
  ['group', '/acme'],
  ['environmentScope', 'a&b=c'],
  ['environmentScope', ''],
  ['baseUrl', 'https://gitlab.example.com/gitlab'],
])('%s rejects %j', (id, value) => {
  const field = [...gitlabCi.auth, ...gitlabCi.target].find((candidate) => candidate.id === id)
  expect(field && field.kind !== 'copy' && field.check?.(value, {})).toMatch(/^(is not|is neither|must be) /)
})
