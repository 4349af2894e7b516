/**
 * Attackers read nothing, send next to nothing and hold as many connections as they can; every request of the other
 * users must succeed.
 */
import type { Socket } from 'node:net'
import { head, json } from '../../test/raw-request.ts'
import { open } from '../../test/raw-socket.ts'
import { startListening } from '../../test/start-server.ts'
import { bothEngines, type Case, type Trial } from '../case.ts'
import { ask, must, pause } from '../load/ask.ts'
import { createProject, register } from '../load/tenant.ts'

const full = { users: 20, attackers: 5 }
const minimum = { users: 4, attackers: 3 }
/** Per attacker with a credential, and as many without one. */
const connectionsEach = 10
const holdMs = 30_000
const trickleMs = 1_000
const returnMs = 2_000
/** The service itself gives up after 10 seconds; a longer wait is due to a busy machine. */
const timeoutMs = 120_000
const valueBytes = 60_000
const bodyBytes = 8 * 1024 * 1024 - 1024
const bundle = '/docs/static/swagger-ui-bundle.js'

type User = { readonly token: string; readonly root: string }

export const stall: Case = {
  name: 'stall',
  about: 'attackers stall their reads and writes while others work',
  engines: bothEngines,
  seconds: 25,
  async run(trial) {
    const { settings } = await trial.createDatabase()
    const service = await startListening({ ...settings, COFFER_SIGNUP: 'open' })
    trial.onEnd(() => service.destroy())
    const { url } = service
    const [users, attackers] = [await createUsers(trial, url, 'users'), await createUsers(trial, url, 'attackers')]
    // 6 MB for each attacker to stall on, and 1 MB for each user to work on.
    for (const { token, root } of attackers) await write(url, token, root, 100)
    for (const { token, root } of users) await write(url, token, root, 20)
    const attack = startAttack(url, attackers)
    trial.onEnd(attack.stop)
    await attack.connected
    const counts = { requests: 0, 'stalled readers': attack.size, 'slow writers': attack.size }
    const rounds = trial.scale(8)
    await Promise.all(
      users.map(async (user, number) => {
        for (let round = 0; round < rounds && !trial.isOver(); round++) {
          for (const [what, work] of workOf(url, user, round)) {
            const problem = await work().catch((error: unknown) => String(error))
            counts.requests++
            if (problem) trial.report(`user ${number}, round ${round}: ${what} returned ${problem}`)
          }
          trial.progress(`${counts.requests} requests`)
        }
      }),
    )
    for (const message of service.messages().filter((text) => text === 'a request failed')) trial.report(message)
    return counts
  },
}

/** Each one with a workspace and a project. */
async function createUsers(trial: Trial, url: string, kind: keyof typeof full): Promise<User[]> {
  const count = Math.min(full[kind], Math.max(minimum[kind], trial.scale(full[kind])))
  const users: User[] = []
  for (let number = 0; number < count; number++) {
    const slug = `${kind}-${number}`
    const token = await register(url, `${slug}@example.com`)
    await must(url, 'POST', '/v1/workspace', { token, body: { name: slug, slug } })
    await createProject(url, token, 'stall', slug)
    users.push({ token, root: `/v1/workspace/${slug}/project/stall/secret` })
  }
  return users
}

function write(url: string, token: string, root: string, count: number, value = 'x'.repeat(valueBytes)) {
  const secrets = Array.from({ length: count }, (_, at) => ({ key: `K${at}`, value }))
  return must(url, 'POST', root, { token, body: { environments: ['development'], secrets, mode: 'upsert' } })
}

/** The requests of a user, large and small; each returns the problem with its response, if any. */
function workOf(url: string, { token, root }: User, round: number): [string, () => Promise<string | undefined>][] {
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
      async () => ((await ask(url, 'GET', bundle, { timeoutMs })).status === 200 ? undefined : 'not 200'),
    ],
  ]
}

type Role = { readonly start: string; readonly rest?: string; readonly isReading: boolean }
type Attack = { readonly size: number; readonly connected: Promise<unknown>; stop(): void }

/** Holds every connection for a while and reopens it, also after being cut off. */
function startAttack(url: string, attackers: readonly User[]): Attack {
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
      const trickle = isReading ? setInterval(() => socket.write('x'), trickleMs) : undefined
      const timer = setTimeout(() => socket.destroy(), holdMs)
      await closed
      clearInterval(trickle)
      clearTimeout(timer)
      sockets.delete(socket)
      await pause(returnMs)
    }
  }

  // Enough for the service to reserve memory for the whole announced body.
  const part = `{"name":"${'x'.repeat(100_000)}`
  const roles = attackers.flatMap(({ token, root }): Role[] => {
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
  const connections = roles.flatMap((role) =>
    Array.from({ length: connectionsEach }, () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      void hold(role, resolve)
      return promise
    }),
  )
  return {
    size: 2 * attackers.length * connectionsEach,
    connected: Promise.all(connections),
    stop() {
      isStopped = true
      for (const socket of sockets) socket.destroy()
    },
  }
}
