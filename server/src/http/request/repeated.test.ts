/** What a proxy in front may read differently than this service is refused: repeated names, and two Host headers. */
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createProject,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../test/harness.ts'

let service: TestService
let owner: TestUser
let project: TestProject
beforeAll(async () => {
  service = await startService()
  owner = await registerOwner(service)
  project = await createProject(service, owner.session, 'api')
})
afterAll(() => service.stop())

const teams = '/v1/workspace/main/team'
const create = (body: string, path = teams) => service.call('POST', path, { token: owner.session, body })

test.each([
  ['at the top level', '{"name":"First","name":"Second"}', 'name: is given twice.'],
  ['in another spelling', '{"name":"First","n\\u0061me":"Second"}', 'name: is given twice.'],
  ['of an unknown field', '{"name":"First","a-b":1,"a-b":2}', 'body: has a name twice.'],
  ['beside an object of the same value', '{"name":{"x":1,"x":1}}', 'x: is given twice.'],
])('a repeated name %s is refused, and nothing is created', async (_what, body, message) => {
  const before = await service.call('GET', teams, { token: owner.session })
  expect(await create(body)).toMatchObject({ status: 400, body: { message } })
  expect((await service.call('GET', teams, { token: owner.session })).text).toBe(before.text)
})

test('a repeated name deep in a large body is refused, and the same body without it is accepted', async () => {
  const environments = [project.environments[0]?.id]
  const secrets = Array.from({ length: 300 }, (_, at) => `{"key":"K${at}","value":"${'{\\"a\\":1}'.repeat(50)}"}`)
  const path = '/v1/workspace/main/project/api/secret'
  const bodyOf = (last: string) =>
    `{"environments":${JSON.stringify(environments)},"secrets":[${secrets.join()},${last}]}`
  const body = bodyOf('{"key":"LAST","value":"a","value":"b"}')
  expect(body.length).toBeGreaterThan(64 * 1024)
  expect(await create(body, path)).toMatchObject({ status: 400, body: { message: 'value: is given twice.' } })
  expect((await create(bodyOf('{"key":"LAST","value":"a"}'), path)).status).toBe(201)
})

function statusOf(path: string, headers: readonly string[]): Promise<number> {
  const { hostname, port } = new URL(service.url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      socket.write([`GET ${path} HTTP/1.1`, ...headers, 'connection: close', '', ''].join('\r\n'))
    })
    let text = ''
    socket.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    socket.on('error', reject).on('close', () => resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])))
  })
}

test.each(['/v1/auth/state', '/v1/me', '/healthz', '/docs'])('two Host headers are refused at %s', async (path) => {
  const authorization = `authorization: Bearer ${owner.session}`
  expect(await statusOf(path, ['host: localhost', authorization])).toBe(200)
  expect(await statusOf(path, ['host: localhost', 'Host: coffer.example.com', authorization])).toBe(400)
  expect(await statusOf(path, ['host: localhost', 'HOST: localhost', authorization])).toBe(400)
})
