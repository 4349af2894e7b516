/**
 * Malformed bytes: the corpus of the tests, and randomly damaged requests. Each gets a response or a closed connection.
 */
import { type Dice, pick } from '../../test/dice.ts'
import type { Listening } from '../../test/program.ts'
import { brokenLengths, brokenLines, chunked, head, json, oversized } from '../../test/raw-request.ts'
import { open, parseAnswers, receive } from '../../test/raw-socket.ts'
import { startListening } from '../../test/start-server.ts'
import { bothEngines, type Case } from '../case.ts'
import { ask } from '../load/ask.ts'
import { register } from '../load/tenant.ts'

const teams = '/v1/workspace/main/team'
const atOnce = 16

export const raw: Case = {
  name: 'raw',
  about: 'malformed and damaged HTTP on a raw socket',
  engines: bothEngines,
  seconds: 12,
  async run(trial) {
    const { settings } = await trial.createDatabase()
    const service = await startListening(settings)
    trial.onEnd(() => service.destroy())
    const token = await register(service.url)
    const counts = { 'requests of the corpus': 0, 'damaged requests': 0, answers: 0 }
    const send = async (what: string, bytes: Buffer) => {
      const { statuses, problem } = await exchange(service, bytes)
      counts.answers += statuses.length
      if (problem)
        trial.report(`${what}: ${problem}; the bytes in base64: ${bytes.subarray(0, 3_000).toString('base64')}`)
    }
    for (const [what, bytes] of [...brokenLines, ...oversized, ...brokenLengths(teams)]) {
      await send(what, typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
      counts['requests of the corpus']++
    }
    const whole = wholeRequests(token)
    let left = trial.scale(20_000)
    const work = async () => {
      while (left-- > 0 && !trial.isOver()) {
        await send('a damaged request', damage(pick(whole, trial.dice), trial.dice))
        counts['damaged requests']++
        trial.progress(`${left} left`)
      }
    }
    await Promise.all(Array.from({ length: atOnce }, work))
    const after = await ask(service.url, 'GET', teams, { token })
    if (after.status !== 200) trial.report(`a valid request afterwards returned ${after.status}`)
    for (const message of service.messages().filter((text) => text === 'a request failed')) trial.report(message)
    return counts
  },
}

function wholeRequests(token: string): Buffer[] {
  const bearer = `Authorization: Bearer ${token}`
  const body = '{"name":"Raw"}'
  return [
    head('GET /v1/me HTTP/1.1', bearer),
    head(`GET ${teams}?limit=1 HTTP/1.1`, bearer),
    head(`POST ${teams} HTTP/1.1`, bearer, json, `Content-Length: ${body.length}`) + body,
    chunked(teams, ['{"na', 'me":"Raw"}'], bearer, json),
    `GET /v1/me HTTP/1.1\r\nHost: localhost\r\n${bearer}\r\n\r\n${head('GET /healthz HTTP/1.1')}`,
    head('HEAD /v1/me HTTP/1.1', bearer),
  ].map((text) => Buffer.from(text, 'latin1'))
}

const pieces = [
  '\r\n',
  '\r\n\r\n',
  '\0',
  ' ',
  ':',
  'chunked',
  'Content-Length: 5\r\n',
  '%00',
  '\u00ff',
  '0\r\n\r\n',
  '/..',
  'HTTP/1.1',
]

/** One to four mutations: flip a bit, cut, repeat or insert bytes, or truncate. */
function damage(whole: Buffer, dice: Dice): Buffer {
  let bytes: Buffer = Buffer.from(whole)
  for (let times = 1 + dice(4); times > 0 && bytes.length > 4; times--) {
    const at = dice(bytes.length)
    const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
    const length = dice(40)
    const mutations: (() => Buffer)[] = [
      () => Buffer.concat([before, Buffer.from([(after[0] ?? 0) ^ (1 << dice(8))]), after.subarray(1)]),
      () => Buffer.concat([before, after.subarray(length)]),
      () => Buffer.concat([before, after.subarray(0, length), after]),
      () => Buffer.concat([before, Buffer.from(pick(pieces, dice), 'latin1'), after]),
      () => before,
    ]
    bytes = pick(mutations, dice)()
  }
  return bytes
}

/** Sends everything and closes its side; the service may respond and must close. */
async function exchange(service: Listening, bytes: Buffer): Promise<{ statuses: number[]; problem?: string }> {
  const socket = open(service.url)
  const received = receive(socket)
  socket.end(bytes)
  try {
    const answer = await received
    const statuses = [...answer.toString('latin1').matchAll(/^HTTP\/1\.1 (\d{3}) /gm)].map(([, status]) =>
      Number(status),
    )
    const failed = statuses.find((status) => status >= 500)
    if (failed) return { statuses, problem: `returned ${failed}` }
    // A HEAD response has a Content-Length but no body.
    if (!/HEAD/i.test(bytes.toString('latin1'))) parseAnswers(answer)
    return { statuses }
  } catch (error) {
    return { statuses: [], problem: error instanceof Error ? error.message : String(error) }
  }
}
