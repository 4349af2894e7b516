import { describe, expect, test } from 'vitest'
import { ownerText } from '../../server/src/providers/provider.ts'
import { terraformCloud } from '../../server/src/providers/terraform-cloud.ts'
import { describeProvider } from './conformance.ts'
import { fakeTerraform } from './fake/terraform-cloud.ts'
import { startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

const names = ['ALPHA', 'BETA', 'GAMMA'] as const
describeProvider(terraformCloud, fakeTerraform, { names })
describe('a variable set', () => describeProvider(terraformCloud, () => fakeTerraform('variableSet'), { names }))
describe('a self-hosted server', () =>
  describeProvider(terraformCloud, () => fakeTerraform('workspace', { baseUrl: 'https://tfe.example.test' }), {
    names,
  }))

const start = async (kind?: 'workspace' | 'variableSet') => {
  const fake = fakeTerraform(kind)
  const running = await startFake(fake)
  return { fake, running, connection: connectionTo(running) }
}

test.each([
  ['workspace', '/api/v2/workspaces/ws-4j8p6jX1w33MiDC7/vars'],
  ['variableSet', '/api/v2/varsets/varset-mio9UUFyFMjU33S4/relationships/vars'],
] as const)('the requests about a %s are those of the vendor’s pages', async (kind, path) => {
  const { fake, running, connection } = await start(kind)
  const [made] = await applyAll(terraformCloud, connection, [create('ALPHA', 'one')])
  const id = made && 'id' in made ? made.id : undefined
  await applyAll(terraformCloud, connection, [update('ALPHA', 'two', id)])
  await applyAll(terraformCloud, connection, [remove({ name: 'ALPHA', ...(id !== undefined && { id }) })])
  const literal = { sensitive: true, hcl: false }
  const description = ownerText(connection.syncId)
  expect(running.requests.map(({ method, path, json }) => ({ method, path, json }))).toEqual([
    {
      method: 'POST',
      path,
      json: {
        data: { type: 'vars', attributes: { key: 'ALPHA', value: 'one', category: 'env', description, ...literal } },
      },
    },
    {
      method: 'PATCH',
      path: `${path}/${id}`,
      json: { data: { id, type: 'vars', attributes: { value: 'two', ...literal } } },
    },
    { method: 'DELETE', path: `${path}/${id}`, json: undefined },
  ])
  expect(fake.violations).toEqual([])
  await running.close()
})

test('a key of the other category is neither listed nor changed', async () => {
  const { fake, running, connection } = await start()
  const terraform = connectionTo(running, { target: { ...running.fake.target, category: 'terraform' } })
  await applyAll(terraformCloud, terraform, [create('ALPHA', 'theirs')])
  expect(await listAll(terraformCloud, connection)).toEqual([])
  await applyAll(terraformCloud, connection, [create('ALPHA', 'one'), update('ALPHA', 'two')])
  await applyAll(terraformCloud, connection, [remove({ name: 'ALPHA' }), remove({ name: 'ALPHA' })])
  expect(fake.variables.map(({ attributes }) => attributes)).toMatchObject([
    { key: 'ALPHA', value: 'theirs', category: 'terraform', sensitive: true },
  ])
  await running.close()
})

test('a sync of an earlier version keeps its category from the options', async () => {
  const { fake, running, connection } = await start()
  const { category: _, ...target } = connection.target
  await applyAll(terraformCloud, { ...connection, target, options: { category: 'terraform' } }, [
    create('ALPHA', 'one'),
  ])
  expect(fake.variables.map(({ attributes }) => attributes)).toMatchObject([{ key: 'ALPHA', category: 'terraform' }])
  await running.close()
})

test('a foreign variable is a conflict, our own one is not', async () => {
  const { fake, running, connection } = await start()
  fake.tamper('ALPHA', 'foreign')
  const [result] = await applyAll(terraformCloud, connection, [create('ALPHA', 'one')])
  expect(result).toMatchObject({ name: 'ALPHA', fault: { kind: 'conflict' } })
  const [late] = await applyAll(terraformCloud, connection, [update('ALPHA', 'one', 'var-that-is-gone')])
  expect(late).toMatchObject({ name: 'ALPHA', fault: { kind: 'conflict' } })
  expect(fake.state()).toEqual(new Map([['ALPHA', 'foreign']]))
  await applyAll(terraformCloud, connection, [create('BETA', 'one')])
  const [again] = await applyAll(terraformCloud, connection, [create('BETA', 'two')])
  expect(again).toMatchObject({ name: 'BETA', id: expect.any(String), mark: expect.any(String) })
  expect(fake.state().get('BETA')).toBe('two')
  await running.close()
})

test('an update re-creates a missing variable and stores its new id', async () => {
  const { fake, running, connection } = await start()
  const [result] = await applyAll(terraformCloud, connection, [update('ALPHA', 'one', 'var-that-is-gone')])
  expect(result).toMatchObject({ name: 'ALPHA', id: fake.variables[0]?.id })
  await running.close()
})

test('a 404 that may mean forbidden does not count as success', async () => {
  const { fake, running, connection } = await start()
  const [made] = await applyAll(terraformCloud, connection, [create('ALPHA', 'one')])
  const known = { name: 'ALPHA', ...(made && 'id' in made && made.id !== undefined && { id: made.id }) }
  fake.isReadOnly = true
  await expect(applyAll(terraformCloud, connection, [remove(known)])).rejects.toMatchObject({ kind: 'scope' })
  await expect(applyAll(terraformCloud, connection, [update('ALPHA', 'two', known.id)])).rejects.toMatchObject({
    kind: 'gone',
  })
  fake.setTarget(false)
  await expect(applyAll(terraformCloud, connection, [remove(known)])).rejects.toMatchObject({ kind: 'gone' })
  fake.setTarget(true)
  expect(fake.state()).toEqual(new Map([['ALPHA', 'one']]))
  await running.close()
})

test('a next page on another host is not followed', async () => {
  const { running, connection } = await start()
  const body = { data: [], links: { next: 'https://elsewhere.example.test/api/v2/vars' } }
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body } })
  await expect(listAll(terraformCloud, connection)).rejects.toMatchObject({ kind: 'protocol' })
  await running.close()
})

test.each([
  ['organization', 'acme/workspaces'],
  ['organization', '..'],
  ['workspace', 'ws-1/../../account'],
  ['workspace', 'shop'],
  ['variableSet', 'varset-1?x'],
  ['baseUrl', 'https://app.terraform.io/api/v2'],
])('%s rejects %j', (id, value) => {
  const field = [...terraformCloud.auth, ...terraformCloud.target].find((candidate) => candidate.id === id)
  expect(field && field.kind !== 'copy' && field.check?.(value, {})).toMatch(/^(is not|must be) /)
})
