// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the values here look like references.
/** An export holds the values that the caller may read, in every format, and leaves an audit entry. */
import { exportFormats } from '@coffer/contract/secret-file'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parse as parseYaml } from 'yaml'
import {
  createToken,
  registerOwner,
  startService,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../../../../test/secret-project.ts'

let service: TestService
let owner: TestUser
let project: SecretProject

beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
})
afterAll(() => service.stop())
beforeEach(async () => {
  project = await createSecretProject(service, owner.session)
})

const canary = 'c4n4ry'
const exportFrom = (format: string, more = '', token?: string, environment = 'development') =>
  project.ask<string>('GET', `/secret/export?environmentId=${environment}&format=${format}${more}`, undefined, token)

describe('an export', () => {
  const contentTypes: Record<(typeof exportFormats)[number], string> = {
    dotenv: 'text/plain; charset=utf-8',
    shell: 'text/plain; charset=utf-8',
    json: 'application/json; charset=utf-8',
    yaml: 'application/yaml; charset=utf-8',
    csv: 'text/csv; charset=utf-8',
    docker: 'text/plain; charset=utf-8',
    k8s: 'application/yaml; charset=utf-8',
    tfvars: 'text/plain; charset=utf-8',
  }
  const expected: Record<(typeof exportFormats)[number], (text: string) => void> = {
    dotenv: (text) => expect(text).toBe("A=one\nB='two words'\n"),
    shell: (text) => expect(text).toMatch(/^export A='?one'?\nexport B='two words'\n$/),
    json: (text) => expect(JSON.parse(text)).toEqual({ A: 'one', B: 'two words' }),
    yaml: (text) => expect(parseYaml(text)).toEqual({ A: 'one', B: 'two words' }),
    csv: (text) => expect(text).toBe('key,value\r\nA,"one"\r\nB,"two words"\r\n'),
    docker: (text) => expect(text).toBe('A=one\nB=two words\n'),
    k8s: (text) => {
      const { kind, metadata, data } = parseYaml(text)
      expect(kind).toBe('Secret')
      expect(metadata.name).toBe(`${project.slug}-development`)
      expect(Buffer.from(String(data.B), 'base64').toString()).toBe('two words')
    },
    tfvars: (text) => expect(text).toMatch(/^A\s*= "one"\nB\s*= "two words"\n$/),
  }

  test.each(exportFormats)('as %s has the right content type, and holds every key in order', async (format) => {
    await project.set('development', { B: 'two words', A: 'one' })
    await project.set('staging', { ELSEWHERE: 'not here' })
    const answer = await exportFrom(format)
    expect(answer.status, answer.text).toBe(200)
    expect(answer.headers.get('content-type')).toBe(contentTypes[format])
    expected[format](answer.text)
  })

  test.each(exportFormats)('as %s of an empty environment succeeds and leaves no audit entry', async (format) => {
    const answer = await exportFrom(format)
    expect(answer.status, answer.text).toBe(200)
    expect(await project.views()).toEqual([])
  })

  test('is dotenv by default, and accepts environment_id', async () => {
    await project.set('development', { A: 'one' })
    for (const name of ['environmentId', 'environment_id']) {
      expect((await project.ask('GET', `/secret/export?${name}=development`)).text).toBe('A=one\n')
    }
  })

  test('for a shell leaves out what is no variable, and names it in a comment and a header', async () => {
    await project.set('development', { KEY: 'v', JAVA_OPTS: canary, 'my-key': canary, NUL: `${canary}\0` })
    const answer = await exportFrom('shell')
    expect(answer.status, answer.text).toBe(200)
    expect(answer.text).toBe(
      '# Left out: JAVA_OPTS (Java obeys it)\n# Left out: NUL (its value contains a NUL)\n' +
        "# Left out: my-key (not the name of a variable)\nexport KEY='v'\n",
    )
    expect(answer.headers.get('x-coffer-left-out')).toBe('JAVA_OPTS, NUL, my-key')
    expect((await project.views())[0]?.after).toEqual({ keys: ['KEY'], export: 'shell' })
    const allowed = await exportFrom('shell', '&allowName=JAVA_OPTS')
    expect(allowed.text).toContain(`export JAVA_OPTS='${canary}'\n`)
    expect(allowed.headers.get('x-coffer-left-out')).toBe('NUL, my-key')
    // No shell has such a name, whatever is allowed.
    expect((await exportFrom('shell', '&allowUnsafe=true')).status).toBe(400)
  })

  test('of data is whole, or refused if the format cannot hold a value', async () => {
    await project.set('development', { JAVA_OPTS: 'v', 'my-key': 'v', NUL: '\0' })
    for (const format of ['dotenv', 'json', 'yaml', 'csv', 'k8s', 'tfvars']) {
      const { text, headers } = await exportFrom(format)
      expect(
        ['JAVA_OPTS', 'my-key', 'NUL'].filter((name) => !text.includes(name)),
        format,
      ).toEqual([])
      expect(headers.get('x-coffer-left-out')).toBeNull()
    }
    expect((await exportFrom('docker')).text).toContain('docker cannot hold the value of NUL')
  })

  test('names no more in the header than clients accept', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `${index}${'-'.repeat(200)}`)
    await project.set('development', Object.fromEntries(names.map((name) => [name, ''])))
    const { text, headers } = await exportFrom('shell')
    expect(text.match(/^# Left out: /gm)).toHaveLength(40)
    expect(headers.get('x-coffer-left-out')?.split(', ')).toEqual([...names].sort().slice(0, 20))
  })

  test('leaves an audit entry with its keys and its format', async () => {
    await project.set('development', { B: '2', A: '1' })
    await exportFrom('csv')
    const [view, ...others] = await project.views()
    expect(others).toEqual([])
    expect(view).toMatchObject({
      actor: { id: owner.id },
      entity: { type: 'secrets', id: project.id },
      environmentId: project.idOf('development'),
      after: { keys: ['A', 'B'], export: 'csv' },
    })
  })

  test('of some keys holds and records only those, and resolves what they refer to', async () => {
    await project.set('development', { A: 'one', B: '${A}', C: '${NOWHERE}', D: 'four' })
    expect((await exportFrom('dotenv', '&key=A')).text).toBe('A=one\n')
    const some = await exportFrom('json', '&key=D&key=B&resolve=true&onUnresolved=error')
    expect(JSON.parse(some.text)).toEqual({ B: 'one', D: 'four' })
    const [last, first] = await project.views()
    expect(first?.after).toEqual({ keys: ['A'], export: 'dotenv' })
    expect(Object(last?.after).keys).toEqual(['B', 'D'])
  })

  test.each([
    ['&key=A&key=ABSENT', 404, 'There is no secret ABSENT in this environment.'],
    ['&key=ELSEWHERE', 404, 'There is no secret ELSEWHERE in this environment.'],
    ['&key=', 400, ''],
    ['&key=A&key=B%20C', 400, ''],
  ])('of %s is refused with %i', async (keys, status, message) => {
    await project.set('development', { A: 'one' })
    await project.set('staging', { ELSEWHERE: 'not here' })
    const answer = await exportFrom('dotenv', keys)
    expect(answer.status, answer.text).toBe(status)
    expect(Object(answer.body).message).toContain(message)
    expect(await project.views()).toEqual([])
  })

  test('keeps references as they are unless resolve is set', async () => {
    await project.set('development', { HOST: 'example.com', URL: 'https://${HOST}/${NOWHERE}', TEXT: '$${HOST}' })
    const read = async (more: string) => JSON.parse((await exportFrom('json', more)).text)
    const stored = { HOST: 'example.com', TEXT: '$${HOST}', URL: 'https://${HOST}/${NOWHERE}' }
    expect(await read('')).toEqual(stored)
    expect(await read('&resolve=false')).toEqual(stored)
    const resolved = { HOST: 'example.com', TEXT: '${HOST}' }
    expect(await read('&resolve=true')).toEqual({ ...resolved, URL: 'https://example.com/${NOWHERE}' })
    expect(await read('&resolve=true&onUnresolved=empty')).toEqual({ ...resolved, URL: 'https://example.com/' })
  })

  test('with resolve records the referenced values in the audit trail, as a list does', async () => {
    const other = await createSecretProject(service, owner.session)
    await other.set('production', { PASSWORD: 'far away' })
    await project.set('staging', { HOST: 'near' })
    const far = `${other.slug}.production.PASSWORD`
    await project.set('development', { A: `\${${far}}`, B: '${staging.HOST}', C: '${A}' })
    expect(JSON.parse((await exportFrom('json', '&resolve=true')).text)).toMatchObject({ A: 'far away', C: 'far away' })
    await project.must('GET', '/secret?environmentId=development&resolve=true')
    const [listed, exported] = await project.views()
    const referenced = expect.arrayContaining([far, `${project.slug}.staging.HOST`])
    const environmentIds = expect.arrayContaining([project.idOf('development'), project.idOf('staging')])
    expect(exported?.after).toEqual({ keys: ['A', 'B', 'C'], export: 'json', referenced, environmentIds })
    expect(Object(exported?.after).referenced).toEqual(Object(listed?.after).referenced)
    await exportFrom('json')
    expect((await project.views())[0]?.after).toEqual({ keys: ['A', 'B', 'C'], export: 'json' })
  })

  test('is refused for an unresolved reference with onUnresolved=error', async () => {
    await project.set('development', { URL: '${NOWHERE}' })
    const answer = await exportFrom('json', '&resolve=true&onUnresolved=error')
    expect(answer.status).toBe(409)
    expect(Object(answer.body).message).toMatch(/^URL: /)
    expect(await project.views()).toEqual([])
  })

  test('holds the personal values of a person, and none for a machine token', async () => {
    await project.allowPersonal('development')
    await project.set('development', { A: 'shared', B: 'shared', C: '${A}' })
    const personal = { environmentId: 'development', value: 'mine', isPersonal: true }
    await project.must('PUT', '/secret/A/value', personal)
    const { token } = await createToken(service, owner.session)
    expect(JSON.parse((await exportFrom('json', '&resolve=true')).text)).toEqual({ A: 'mine', B: 'shared', C: 'mine' })
    expect(JSON.parse((await exportFrom('json', '&resolve=true', token)).text)).toEqual({
      A: 'shared',
      B: 'shared',
      C: 'shared',
    })
  })

  test('in a format that cannot hold a value is refused with the key, quotes no value and leaves no audit entry', async () => {
    await project.set('development', { A: 'one', MULTI: `${canary}\n${canary}` })
    const answer = await exportFrom('docker')
    expect(answer.status).toBe(400)
    expect(Object(answer.body).message).toMatch(/^format: docker cannot hold the value of MULTI/)
    expect(answer.text).not.toContain(canary)
    expect(await project.views()).toEqual([])
  })

  test.each([
    ['?format=json', 400],
    ['?environmentId=development&format=xml', 400],
    ['?environmentId=nowhere', 404],
  ])('with %s is refused', async (query, status) => {
    expect((await project.ask('GET', `/secret/export${query}`)).status).toBe(status)
  })
})
