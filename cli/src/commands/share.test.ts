import { readdirSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openShell, type Shell } from '../../../test/cli.ts'
import { type SdkService, startSdkService } from '../../../test/sdk-service.ts'

const canary = 'c4n4ry-v4lue'
let coffer: SdkService
beforeAll(async () => {
  coffer = await startSdkService()
  await coffer.write({ API_KEY: canary, HOST: 'db', DATABASE_URL: `postgres://${'$'}{HOST}/x` })
})
afterAll(() => coffer.stop())

const shellOf = (more: Record<string, string | undefined> = {}) =>
  openShell({ ...coffer.env, COFFER_TOKEN: coffer.session, ...more })
/** Somebody without an account, whose machine reaches the service under the address in the link. */
const strangerOf = () => openShell()
const reachable = (link: string) => link.trim().replace('http://localhost:8080', coffer.service.url)

async function shareOf(shell: Shell, ...args: string[]) {
  const { code, out, err } = await shell.coffer(['share', ...args])
  expect({ code, err }).toMatchObject({ code: 0 })
  return { link: out.trim(), id: /--revoke (\S+)/.exec(err)?.[1] ?? '', out, err }
}

const logged = () => coffer.service.logs.join('')

test('prints the link alone; the key in it never reaches the service; a stranger opens it once', async () => {
  const shell = shellOf()
  const { link, out, err, id } = await shareOf(shell, 'API_KEY', 'DATABASE_URL')
  expect(out).toMatch(/^http:\/\/localhost:8080\/share\/[\w-]+#1\.[\w-]{48}\n$/)
  const lines = [
    /Opens once, until \S+Z, in a browser or with coffer share --open\./,
    /To end it: coffer share --revoke [0-9a-f-]{36}/,
  ]
  expect(err).toMatch(new RegExp(`^${lines.map(({ source }) => `${source}\n`).join('')}$`))
  const stranger = strangerOf()
  const opened = await stranger.coffer(['share', '--open', '-', '-y'], { input: `${reachable(link)}\n` })
  expect(opened).toMatchObject({ code: 0, out: `API_KEY\t${canary}\nDATABASE_URL\tpostgres://db/x\n` })
  expect(opened.err).toBe('The share cannot be opened again.\n')
  const again = await stranger.coffer(['share', `--open=${reachable(link)}`, '-y'])
  expect(again).toMatchObject({ code: 5, out: '' })
  expect(again.err).toContain('it has expired, was revoked, or was opened before')
  expect(logged()).not.toContain(link.split('#')[1])
  expect(logged()).not.toContain(canary)
  expect(readdirSync(stranger.home)).toEqual([])
  const listed = await shell.coffer(['share', '--list'])
  expect(listed.out).toContain(`${id}\tAPI_KEY, DATABASE_URL\tend-to-end\texhausted\t1/1\t`)
})

test('personal values behind a reference are not shared', async () => {
  const { service, session, environmentId } = coffer
  const path = `/v1/workspace/main/project/api/environment/${environmentId}`
  await service.call('PUT', path, { token: session, body: { hasPersonalOverrides: true } })
  const shell = shellOf()
  const set = ['secrets', 'set', 'REFERRED=shared', `REFERS=${'$'}{MIDDLE}`, `MIDDLE=<${'$'}{REFERRED}>`, '-q']
  expect(await shell.coffer(set)).toMatchObject({ code: 0 })
  expect(await shell.coffer(['share', 'REFERS'])).toMatchObject({ code: 0 })
  expect(await shell.coffer(['secrets', 'set', '--personal', 'REFERRED=mine', '-q'])).toMatchObject({ code: 0 })
  const { code, out, err } = await shell.coffer(['share', 'REFERS'])
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toContain('REFERS has references that may lead to personal values of yours')
  expect(await shell.coffer(['share', 'REFERS', '--server-side'])).toMatchObject({ code: 0 })
})

test('text from stdin comes out byte for byte', async () => {
  const text = '-----BEGIN KEY-----\n\ta\u001b[31m\u00e9\n-----END KEY-----\n'
  const made = await shellOf().coffer(['share', '-', '--views', '2', '--expires', '10m', '--json', '-q'], {
    input: text,
  })
  expect(made).toMatchObject({ code: 0, err: '' })
  const { url, maxViews } = JSON.parse(made.out)
  expect(maxViews).toBe(2)
  const opened = await strangerOf().coffer(['share', '--open', '-', '-y'], { input: reachable(url) })
  expect(opened).toMatchObject({ code: 0, out: text, err: 'Views left: 1.\n' })
  const json = await strangerOf().coffer(['share', '--open', '-', '-y', '--json'], { input: reachable(url) })
  expect(JSON.parse(json.out)).toEqual({ content: text, viewsLeft: 0 })
})

test('a share that the service seals has no key in its link', async () => {
  const { link } = await shareOf(shellOf(), 'API_KEY', '--server-side')
  expect(link).not.toContain('#')
  const opened = await strangerOf().coffer(['share', '--open', '-', '-y'], { input: reachable(link) })
  expect(opened).toMatchObject({ code: 0, out: `API_KEY\t${canary}\n` })
})

test('a password is asked for twice by the sender and once by the reader; a wrong one opens nothing', async () => {
  const sender = shellOf().terminal(['share', 'API_KEY', '--password'])
  await sender.see('Password for the reader')
  sender.type('s3same\r')
  await sender.see('The same password again')
  sender.type('s3same\r')
  await sender.see('#1.')
  await sender.ended
  const link = /http:\S+#1\.[\w-]{48}/.exec(sender.screen().replaceAll(/\r?\n/g, ' '))?.[0] ?? ''
  expect(sender.screen()).not.toContain('s3same')

  const noTerminal = await strangerOf().coffer(['share', '--open', '-', '-y'], { input: reachable(link) })
  expect(noTerminal).toMatchObject({ code: 2, out: '' })
  for (const [password, code, seen] of [
    ['wrong', 4, 'coffer:'],
    ['s3same', 0, canary],
  ] as const) {
    const reader = strangerOf().terminal(['share', '--open'])
    await reader.see('Link of the share')
    reader.type(`${reachable(link)}\r`)
    await reader.see('Open it now?')
    reader.type('y')
    await reader.see('Password of the share')
    reader.type(`${password}\r`)
    await reader.see(seen)
    expect(await reader.ended).toMatchObject({ code })
  }
})

test('a terminal shows no control characters of the sender, and asks before a view is used up', async () => {
  const made = await shellOf().coffer(['share', '-', '-q'], { input: 'a\u001b]0;evil\u0007b\nc' })
  const link = reachable(made.out)
  const refused = strangerOf().terminal(['share', '--open', link])
  await refused.see('This share can be opened once more, until')
  refused.type('n')
  expect(await refused.ended).toMatchObject({ code: 130 })
  const reader = strangerOf().terminal(['share', '--open', link, '-y'])
  const { code, out } = await reader.ended
  expect(code).toBe(0)
  expect(out).toContain('a\\u001b]0;evil\\u0007b\r\nc\r\n')
})

test('a terminal shows the whole of a long value, which nobody can read again', async () => {
  const long = Array.from({ length: 60 }, (_, index) => `part${index}`).join('-')
  await coffer.write({ LONG: long })
  const { link } = await shareOf(shellOf(), 'LONG')
  const { code, out } = await strangerOf().terminal(['share', '--open', reachable(link), '-y']).ended
  expect(code).toBe(0)
  expect(out).toContain(long)
})

test('revokes a share', async () => {
  const shell = shellOf()
  const { link, id } = await shareOf(shell, 'API_KEY', '--views', '5')
  expect(await shell.coffer(['share', '--revoke', id])).toMatchObject({ code: 0, out: `${id}\trevoked\n` })
  const opened = await strangerOf().coffer(['share', '--open', '-', '-y'], { input: reachable(link) })
  expect(opened.code).toBe(5)
})

test('a damaged link is noticed before a view is used up', async () => {
  const { link } = await shareOf(shellOf(), 'API_KEY')
  const whole = reachable(link)
  for (const damaged of [whole.slice(0, -3), whole.replace(/#.*/, '')]) {
    const { code, err } = await strangerOf().coffer(['share', '--open', '-', '-y'], { input: damaged })
    expect(code).toBe(1)
    expect(err).toMatch(/This link is damaged|The link is cut off/)
    expect(err).not.toContain(whole.split('#')[1]?.slice(3, 20))
  }
  const opened = await strangerOf().coffer(['share', '--open', '-', '-y'], { input: whole })
  expect(opened.code).toBe(0)
})

test.each([
  [[], 2, 'A KEY is missing.'],
  [['API_KEY', '--views', '0'], 2, '--views must be a whole number from 1 on.'],
  [['API_KEY', '--views', '101'], 2, '--views is 100 at most.'],
  [['API_KEY', '--password'], 2, 'There is nobody to ask here'],
  [['-', 'API_KEY'], 2, '- stands alone.'],
  [['-', '--password'], 2, '--password cannot be asked for while stdin is the text.'],
  [['-'], 2, 'There is nothing on stdin to share.'],
  [['ABSENT'], 5, 'There is no secret ABSENT in development.'],
  [['bad name'], 2, 'The name of a secret has 1 to 255 letters, digits, _ and -.'],
  [['--list', '--views', '2'], 2, '--list, --revoke and --open stand alone.'],
  [['--list', 'API_KEY'], 2, '--list and --revoke take no KEY.'],
  [['--revoke', 'API_KEY'], 2, '--revoke takes the id of a share.'],
  [['--revoke', '00000000-0000-0000-0000-000000000000'], 5, 'There is no share 00000000-'],
  [['--list', '-p', 'nowhere'], 5, 'There is no project nowhere in the workspace main'],
  [['--revoke', '00000000-0000-0000-0000-000000000000', '-p', 'nowhere'], 5, 'There is no project nowhere'],
  [['--open'], 2, 'There is nobody to ask here'],
  [['--open', 'https://example.test/other'], 2, 'This is not the link of a share.'],
  [['--open', 'a', 'b'], 2, '--open takes one link.'],
])('share %j ends with %i', async (args, code, message) => {
  const outcome = await shellOf().coffer(['share', ...args])
  expect(outcome).toMatchObject({ code, out: '' })
  expect(outcome.err).toContain(message)
})

test('a reader without a terminal says yes by a flag', async () => {
  const { link } = await shareOf(shellOf(), 'API_KEY')
  const asked = await strangerOf().coffer(['share', '--open', '-'], { input: reachable(link) })
  expect(asked).toMatchObject({ code: 2, out: '' })
  expect(asked.err).toContain('try: --yes')
})

test('a read-only token cannot share', async () => {
  const { code, err } = await shellOf({ COFFER_TOKEN: coffer.token }).coffer(['share', 'API_KEY'])
  expect(code).toBe(4)
  expect(err).toContain('\ntry: a token with more rights than this one (read): ')
})
