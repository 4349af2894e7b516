/** Four processes share one limit by way of Redis: of many requests at once exactly as many pass as may. */
import { type Listening, startListening } from '../test/program.ts'
import { startRedis } from '../test/redis.ts'
import { ask, pause } from './ask.ts'
import type { Case } from './case.ts'
import { demand } from './program-at-hand.ts'

const processes = 4
const limit = 50
const asked = 90
const clientsAtOnce = 4
/** What a node logs, and for how long at most it does not ask Redis again. */
const away = 'Redis does not answer: rate limits are counted on each node alone'
const back = 'rate limits are shared again'
const restMs = 1_500

export const limiter: Case = {
  name: 'limiter',
  about: 'four processes and one limit in Redis: exact to the request',
  engines: ['postgres'],
  seconds: 12,
  unable: () => demand('redis-server'),
  async run(trial) {
    const redis = await startRedis()
    trial.onEnd(() => redis.kill())
    const { settings } = await trial.createDatabase()
    const shared = {
      ...settings,
      COFFER_RATE_LIMIT: String(limit),
      COFFER_TRUSTED_PROXIES: '127.0.0.0/8',
      COFFER_REDIS_URL: redis.url,
    }
    const services = [await startListening(shared)]
    while (services.length < processes) services.push(await startListening(shared))
    trial.onEnd(() => Promise.all(services.map((service) => service.destroy())))
    const counts = { clients: 0, requests: 0, passed: 0 }
    const due = trial.share(100)
    let number = 0
    while (counts.clients < due && !trial.isOver()) {
      const clients = Array.from({ length: clientsAtOnce }, () => {
        number++
        return `198.51.${Math.floor(number / 200) % 256}.${(number % 200) + 1}`
      })
      const before = timesTold(services, away)
      const passed = await Promise.all(
        clients.map(async (client) => {
          const answers = await Promise.all(
            Array.from({ length: asked }, () => {
              const service = services[trial.dice(processes)]
              return ask(service?.url ?? '', 'GET', '/v1/me', { headers: { 'x-forwarded-for': client } })
            }),
          )
          const odd = answers.find(({ status }) => status !== 401 && status !== 429)
          if (odd) trial.find(`${client} is answered with ${odd.status} ${odd.text}`)
          return answers.filter(({ status }) => status === 401).length
        }),
      )
      // A machine that stands still for a moment is to a node a Redis that is away: then it is allowed to count alone.
      const times = timesTold(services, away)
      if (times > Math.min(before, timesTold(services, back))) {
        await pause(restMs)
        continue
      }
      for (const [at, count] of passed.entries()) {
        if (count !== limit) trial.find(`${count} requests of ${clients[at]} passed, and ${limit} may`)
        counts.passed += count
      }
      counts.clients += clientsAtOnce
      counts.requests += clientsAtOnce * asked
      trial.progress(`${counts.clients} of ${due} clients`)
    }
    return counts
  },
}

function timesTold(services: readonly Listening[], message: string): number {
  return services.reduce((sum, service) => sum + service.messages().filter((told) => told === message).length, 0)
}
