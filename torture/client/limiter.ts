/** Four processes share one rate limit in Redis: exactly as many concurrent requests pass as the limit allows. */
import type { Listening } from '../../test/program.ts'
import { startRedis } from '../../test/redis.ts'
import { startListening } from '../../test/start-server.ts'
import type { Case } from '../case.ts'
import { ask, pause } from '../load/ask.ts'
import { requireProgram } from '../required-program.ts'

const processes = 4
const limit = 50
const requestsPerClient = 90
const clientsAtOnce = 4
/** Log messages of a node, and the maximum time until it tries Redis again. */
const redisLost = 'Redis does not answer: rate limits are counted on each node alone'
const redisRestored = 'rate limits are shared again'
const retryMs = 1_500

export const limiter: Case = {
  name: 'limiter',
  about: 'four processes, one rate limit in Redis: exact to the request',
  engines: ['postgres'],
  seconds: 12,
  unable: () => requireProgram('redis-server'),
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
    const due = trial.scale(100)
    let number = 0
    while (counts.clients < due && !trial.isOver()) {
      const clients = Array.from({ length: clientsAtOnce }, () => {
        number++
        return `198.51.${Math.floor(number / 200) % 256}.${(number % 200) + 1}`
      })
      const before = countMessages(services, redisLost)
      const passed = await Promise.all(
        clients.map(async (client) => {
          const answers = await Promise.all(
            Array.from({ length: requestsPerClient }, () => {
              const service = services[trial.dice(processes)]
              return ask(service?.url ?? '', 'GET', '/v1/me', { headers: { 'x-forwarded-for': client } })
            }),
          )
          const unexpected = answers.find(({ status }) => status !== 401 && status !== 429)
          if (unexpected) trial.report(`${client} got ${unexpected.status} ${unexpected.text}`)
          return answers.filter(({ status }) => status === 401).length
        }),
      )
      // A short stall of the machine looks like a Redis outage to a node: then local counting is allowed.
      const times = countMessages(services, redisLost)
      if (times > Math.min(before, countMessages(services, redisRestored))) {
        await pause(retryMs)
        continue
      }
      for (const [at, count] of passed.entries()) {
        if (count !== limit) trial.report(`${count} requests of ${clients[at]} passed, the limit is ${limit}`)
        counts.passed += count
      }
      counts.clients += clientsAtOnce
      counts.requests += clientsAtOnce * requestsPerClient
      trial.progress(`${counts.clients} of ${due} clients`)
    }
    return counts
  },
}

function countMessages(services: readonly Listening[], message: string): number {
  return services.reduce((sum, service) => sum + service.messages().filter((told) => told === message).length, 0)
}
