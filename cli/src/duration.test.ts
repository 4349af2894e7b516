/** Durations mean the same in every flag, and a refusal proposes one that the same flag accepts. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openShell } from '../../test/cli.ts'
import { createToken, password } from '../../test/harness.ts'
import { type SdkService, startSdkService } from '../../test/sdk-service.ts'

let coffer: SdkService
beforeAll(async () => {
  coffer = await startSdkService()
  await coffer.write({ KEY: 'value' })
})
afterAll(() => coffer.stop())

const shellOf = () => openShell({ ...coffer.env, COFFER_TOKEN: coffer.session })
const words = '24h, 5d, 30d, 60d, 3mo, 6mo, 1y, never'
const noDuration = 'must be a number with a unit: ms, s, m, h or d.'

test.each([
  { line: ['share', 'KEY', '--expires'], given: '3mo', says: noDuration, near: '1h' },
  { line: ['share', 'KEY', '--expires'], given: '3', says: noDuration, near: '1h' },
  { line: ['share', 'KEY', '--expires'], given: '4m', says: 'is between 5m and 30d.', near: '5m' },
  { line: ['share', 'KEY', '--expires'], given: '31d', says: 'is between 5m and 30d.', near: '30d' },
  { line: ['share', 'KEY', '--views'], given: '101', says: 'is 100 at most.', near: '100' },
  { line: ['token', 'rotate', 'TURNED', '--grace'], given: 'soon', says: noDuration, near: '1h' },
  { line: ['token', 'rotate', 'TURNED', '--grace'], given: '2d', says: 'is between 0s and 24h.', near: '24h' },
  { line: ['run', '--grace', '?', '--', 'true'], given: '25h', says: 'is between 0s and 24h.', near: '24h' },
  { line: ['run', '--grace', '?', '--', 'true'], given: '1y', says: noDuration, near: '10s' },
  { line: ['run', '--watch-interval', '?', '--', 'true'], given: '99ms', says: 'is between 100ms', near: '100ms' },
  { line: ['run', '--watch-interval', '?', '--', 'true'], given: '2d', says: '100ms and 24h.', near: '24h' },
  { line: ['run', '--cache-max-age', '?', '--', 'true'], given: '1mo', says: noDuration, near: '24h' },
  ...Object.entries({
    '3m': '3mo',
    '6m': '6mo',
    '90m': '24h',
    '1h': '24h',
    '48h': '24h',
    '7d': '5d',
    '1w': '5d',
    '31d': '30d',
    '90d': '3mo',
    '4mo': '3mo',
    '12mo': '1y',
    '10y': '1y',
  }).map(([given, near]) => ({ line: ['token', 'create', 'new', '--expires'], given, says: words, near })),
])('$line refuses $given and proposes $near, which it accepts', async ({ line, given, says, near }) => {
  const shell = shellOf()
  const { id } = await createToken(coffer.service, coffer.session, { name: 'turned' })
  const withValue = (value: string) => {
    const given = line.includes('?') ? line : [...line, '?']
    return given.map((word) => (word === '?' ? value : word === 'TURNED' ? id : word))
  }
  const flag = line.findLast((word) => word.startsWith('--') && word !== '--')
  const refused = await shell.coffer(withValue(given))
  expect(refused).toMatchObject({ code: line[0] === 'run' ? 125 : 2, out: '' })
  expect(refused.err).toMatch(new RegExp(`^coffer: ${flag} .*\ntry: ${flag} ${near}\n$`))
  expect(refused.err).toContain(says)
  expect(await shell.coffer(withValue(near))).toMatchObject({ code: 0 })
})

test('a word that is no duration is refused with the list alone', async () => {
  expect(await shellOf().coffer(['token', 'create', 'new', '--expires', 'forever'])).toEqual({
    code: 2,
    signal: null,
    out: '',
    err: `coffer: --expires must be one of: ${words}.\n`,
  })
})

test.each([
  ['3mo', 91],
  ['6mo', 182],
])('%s are months for the service', async (expires, days) => {
  const { out } = await shellOf().coffer(['token', 'create', 'months', '--expires', expires, '--json', '-q'])
  const { id, expiresAt } = JSON.parse(out)
  const listed: { id: string; createdAt: string }[] = JSON.parse(
    (await shellOf().coffer(['token', 'list', '--json'])).out,
  )
  const createdAt = listed.find((one) => one.id === id)?.createdAt ?? ''
  // Two readings of the clock, milliseconds apart.
  expect((Date.parse(expiresAt) - Date.parse(createdAt)) / 86_400_000).toBeCloseTo(days, 3)
})

test('a limit of the workspace is named with a duration that it allows', async () => {
  const { service, session } = coffer
  const path = '/v1/workspace/main/policy'
  const answer = await service.call('GET', path, { token: session })
  const policy = answer.body as { sharing: object }
  const set = (change: object) => service.call('PUT', path, { token: session, body: { ...policy, ...change } })
  expect((await set({ maxTokenDays: 7, sharing: { ...policy.sharing, maxDays: 2 } })).status).toBe(200)
  const shell = shellOf()
  expect(await shell.coffer(['token', 'create', 'long'])).toMatchObject({
    code: 4,
    err: 'coffer: --expires: tokens of this workspace are valid for 7 days at most: choose a shorter time.\ntry: --expires 5d\n',
  })
  expect(await shell.coffer(['token', 'create', 'long', '--expires', '5d'])).toMatchObject({ code: 0 })
  expect(await shell.coffer(['share', 'KEY', '--expires', '3d'])).toMatchObject({
    code: 4,
    err: 'coffer: --expires: shares of this workspace are valid for 2 days at most: choose a shorter time.\ntry: --expires 2d\n',
  })
  expect(await shell.coffer(['share', 'KEY', '--expires', '2d'])).toMatchObject({ code: 0 })
  expect((await set({})).status).toBe(200)
})

test('a token that may administer lives 3mo at most, which is said before the password is asked for', async () => {
  const args = [
    'token',
    'create',
    'ops',
    '--may-administer',
    '--permission',
    'read-write',
    '--scope',
    'all',
    '--expires',
  ]
  expect(await shellOf().coffer([...args, '6mo'])).toMatchObject({
    code: 2,
    out: '',
    err: 'coffer: --expires is 3mo at most for a token that may administer.\ntry: --expires 3mo\n',
  })
  const session = shellOf().terminal([...args, '3mo'])
  await session.see('Your password, or a code')
  session.type(`${password}\r`)
  expect(await session.ended).toMatchObject({ code: 0 })
})
