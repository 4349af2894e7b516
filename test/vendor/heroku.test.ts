import Heroku from 'heroku-client'
import { expect, test } from 'vitest'
import { heroku } from '../../server/src/providers/heroku.ts'
import { describeProvider } from './conformance.ts'
import { fakeHeroku } from './fake/heroku.ts'
import { startFake } from './fake.ts'
import { applyAll, connectionTo, create, listAll, remove, update } from './operation.ts'

describeProvider(heroku, fakeHeroku, { names: ['ALPHA', 'BETA', 'GAMMA'] })

test('heroku-client works against the fake and sends the same requests as we do', async () => {
  const theirs = await startFake(fakeHeroku(), { plain: true })
  const client = new Heroku({ token: theirs.fake.credential.token, host: theirs.url })
  await client.patch('/apps/shop-production/config-vars', { body: { ALPHA: 'one', BETA: 'two' } })
  await client.patch('/apps/shop-production/config-vars', { body: { ALPHA: 'three' } })
  await client.patch('/apps/shop-production/config-vars', { body: { BETA: null } })
  expect(await client.get('/apps/shop-production/config-vars')).toEqual({ ALPHA: 'three' })

  const ours = await startFake(fakeHeroku())
  const connection = connectionTo(ours)
  await applyAll(heroku, connection, [create('ALPHA', 'one'), create('BETA', 'two')])
  await applyAll(heroku, connection, [update('ALPHA', 'three')])
  await applyAll(heroku, connection, [remove({ name: 'BETA' })])
  await listAll(heroku, connection)
  const wire = ({ method, path, headers: { accept }, json }: (typeof ours.requests)[number]) => ({
    method,
    path,
    accept,
    json,
  })
  expect(ours.requests.map(wire)).toEqual(theirs.requests.map(wire))
  await Promise.all([theirs.close(), ours.close()])
})

test('a proxy’s page with status 200 is not a successful push', async () => {
  const running = await startFake(fakeHeroku())
  running.injectFailure = () => ({ kind: 'answer', answer: { status: 200, body: '<html>Back soon</html>' } })
  await expect(applyAll(heroku, connectionTo(running), [create('A', '1')])).rejects.toMatchObject({ kind: 'protocol' })
  await running.close()
})

test.each([
  ['ConnectionStrings__Default', true],
  ['A__', true],
  ['_A', true],
  ['__A', false],
  ['HEROKU_A', false],
  ['1A', false],
  ['A-B', false],
])('the name %s is accepted: %s', (name, isAccepted) => {
  expect(heroku.limits.name.test(name)).toBe(isAccepted)
})
