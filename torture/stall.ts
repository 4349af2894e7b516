/** Strangers who read nothing and send next to nothing hold on to all they can get, while people work: all of their requests succeed. */
import type { Socket } from 'node:net'
import { startListening } from '../test/program.ts'
import { head, json } from '../test/raw-request.ts'
import { open } from '../test/raw-socket.ts'
import { ask, must, pause } from './ask.ts'
import { bothEngines, type Case, type Trial } from './case.ts'
import { createProject, register } from './tenant.ts'

const most = { people: 20, strangers: 5 }
const least = { people: 4, strangers: 3 }
/** Of each stranger, and as many without any credential. */
const connectionsEach = 10
const holdMs = 30_000
const dribbleMs = 1_000
const returnMs = 2_000
/** The service refuses after 10 seconds what it cannot serve: a longer wait is that of a busy machine. */
const timeoutMs = 120_000
const valueBytes = 60_000
const bodyBytes = 8 * 1024 * 1024 - 1024
const bundle = '/docs/static/swagger-ui-bundle.js'

type Person = { readonly token: string; readonly root: string }

export const stall: Case = {
  name: 'stall',
  about: 'strangers who stall their reads and writes, while people work',
  engines: bothEngines,
  seconds: 25,
  async run(trial) {
    const { settings } = await trial.createDatabase()
    const service = await startListening({ ...settings, COFFER_SIGNUP: 'open' })
    trial.onEnd(() => service.destroy())
    const { url } = service
    const [people, strangers] = [await createPeople(trial, url, 'people'), await createPeople(trial, url, 'strangers')]
    // 6 MB for each stranger to stall on, and 1 MB for each person to work on.
    for (const { token, root } of strangers) await write(url, token, root, 100)
    for (const { token, root } of people) await write(url, token, root, 20)
    const crowd = startCrowd(url, strangers)
    trial.onEnd(crowd.stop)
    await crowd.hasArrived
    const counts = { requests: 0, 'stalled readers': crowd.size, 'slow writers': crowd.size }
    const rounds = trial.share(8)
    await Promise.all(
      people.map(async (person, number) => {
        for (let round = 0; round < rounds && !trial.isOver(); round++) {
          for (const [what, work] of workOf(url, person, round)) {
            const problem = await work().catch((error: unknown) => String(error))
            counts.requests++
            if (problem) trial.find(`person ${number}, round ${round}: ${what} is answered with ${problem}`)
          }
          trial.progress(`${counts.requests} requests`)
        }
      }),
    )
    for (const message of service.messages().filter((text) => text === 'a request failed')) trial.find(message)
    return counts
  },
}

/** Each in a workspace of their own, with a project. */
async function createPeople(trial: Trial, url: string, kind: keyof typeof most): Promise<Person[]> {
  const count = Math.min(most[kind], Math.max(least[kind], trial.share(most[kind])))
  const people: Person[] = []
  for (let number = 0; number < count; number++) {
    const slug = `${kind}-${number}`
    const token = await register(url, `${slug}@example.com`)
    await must(url, 'POST', '/v1/workspace', { token, body: { name: slug, slug } })
    await createProject(url, token, 'stall', slug)
    people.push({ token, root: `/v1/workspace/${slug}/project/stall/secret` })
  }
  return people
}

function write(url: string, token: string, root: string, count: number, value = 'x'.repeat(valueBytes)) {
  const secrets = Array.from({ length: count }, (_, at) => ({ key: `K${at}`, value }))
  return must(url, 'POST', root, { token, body: { environments: ['development'], secrets, mode: 'upsert' } })
}

/** What a person does, large and small; each returns what is wrong with its answer. */
function workOf(url: string, { token, root }: Person, round: number): [string, () => Promise<string | undefined>][] {
  const expecting = async (method: string, path: string, body?: unknown) => {
    const { status, text } = await ask(url, method, path, { token, timeoutMs, ...(body !== undefined && { body }) })
    if (status >= 300) return `${status} ${text.slice(0, 200)}`
    JSON.parse(text)
    return undefined
  }
  const value = `${round} ${'y'.repeat(valueBytes - 20)}`
  const secrets = Array.from({ length: 20 }, (_, at) => ({ key: `K${at}`, value }))
  const all = { environments: ['development'], secrets, mode: 'upsert' }
  return [
    ['a small write', () => expecting('POST', root, { ...all, secrets: [{ key: 'SMALL', value: `${round}` }] })],
    ['a small read', () => expecting('GET', `${root}/SMALL?environmentId=development`)],
    ['a large write', () => expecting('POST', root, all)],
    ['a large read', () => expecting('GET', `${root}?environmentId=development`)],
    [
      'the reference',
      async () => ((await ask(url, 'GET', bundle, { timeoutMs })).status === 200 ? undefined : 'no 200'),
    ],
  ]
}

type Role = { readonly start: string; readonly rest?: string; readonly isReading: boolean }
type Crowd = { readonly size: number; readonly hasArrived: Promise<unknown>; stop(): void }

/** Everybody holds a connection for a while and then comes again, as does whoever is cut off. */
function startCrowd(url: string, strangers: readonly Person[]): Crowd {
  let isStopped = false
  const sockets = new Set<Socket>()

  async function hold({ start, rest = '', isReading }: Role, onConnect: () => void): Promise<void> {
    while (!isStopped) {
      const socket = open(url)
      sockets.add(socket)
      const closed = new Promise<void>((resolve) => void socket.on('error', () => undefined).on('close', resolve))
      if (isReading) socket.resume()
      else socket.pause()
      socket.write(start)
      socket.write(rest, onConnect)
      const dribble = isReading ? setInterval(() => socket.write('x'), dribbleMs) : undefined
      const timer = setTimeout(() => socket.destroy(), holdMs)
      await closed
      clearInterval(dribble)
      clearTimeout(timer)
      sockets.delete(socket)
      await pause(returnMs)
    }
  }

  // Enough to be given room for all that is announced.
  const part = `{"name":"${'x'.repeat(100_000)}`
  const roles = strangers.flatMap(({ token, root }): Role[] => {
    const bearer = `Authorization: Bearer ${token}`
    const upload = head('POST /v1/workspace HTTP/1.1', bearer, json, `Content-Length: ${bodyBytes}`)
    const login = head('POST /v1/auth/login HTTP/1.1', json, 'Content-Length: 60000')
    return [
      { start: head(`GET ${root}?environmentId=development HTTP/1.1`, bearer), isReading: false },
      { start: `GET ${bundle} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(4), isReading: false },
      { start: upload, rest: part, isReading: true },
      { start: login, rest: '{"email":"', isReading: true },
    ]
  })
  const arrivals = roles.flatMap((role) =>
    Array.from({ length: connectionsEach }, () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      void hold(role, resolve)
      return promise
    }),
  )
  return {
    size: 2 * strangers.length * connectionsEach,
    hasArrived: Promise.all(arrivals),
    stop() {
      isStopped = true
      for (const socket of sockets) socket.destroy()
    },
  }
}
