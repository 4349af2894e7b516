/** Other servers that the settings name: Redis and the mail server. */

import { openMail } from '../../app.ts'
import type { Config } from '../../config.ts'
import { codeOf } from '../../error-code.ts'
import { createLog } from '../../log.ts'
import { compareClock } from './clock.ts'
import { type Check, type Finding, ok, wrong } from './finding.ts'

const withinMs = 5_000

export function peerChecks(config: Config): Check[] {
  const { redisUrl, smtpUrl } = config
  const checks: Check[] = []
  if (redisUrl !== undefined) {
    checks.push({ name: 'Redis', ...redisWords, run: () => checkRedis(redisUrl) })
  }
  if (smtpUrl !== undefined) checks.push({ name: 'mail server', ...mailWords, run: () => checkMail(config) })
  return checks
}

const redisWords = {
  why: 'Each node counts requests alone, so a client may send as many times more as there are nodes.',
  fix: 'start Redis, or correct COFFER_REDIS_URL.',
}

async function checkRedis(url: string): Promise<Finding> {
  const { Redis } = await import('ioredis')
  const options = { maxRetriesPerRequest: 0, commandTimeout: withinMs, connectTimeout: withinMs, lazyConnect: true }
  const redis = new Redis(url, { ...options, retryStrategy: () => null })
  let reason: unknown
  redis.on('error', (error: unknown) => {
    reason = error
  })
  try {
    await redis.connect()
    return await compareClock(async () => {
      const [seconds = 0, micros = 0] = (await redis.time()).map(Number)
      return seconds * 1_000 + micros / 1_000
    })
  } catch (error) {
    const { why, fix } = redisWords
    return wrong(`does not answer (${redisCode(reason ?? error)})`, why, fix)
  } finally {
    redis.disconnect()
  }
}

/** Replies such as NOAUTH begin with a word; the rest of a reply is not shown. */
function redisCode(error: unknown): string {
  const word = error instanceof Error ? /^[A-Z]+(?= )/.exec(error.message)?.[0] : undefined
  return word ?? codeOf(error)
}

const mailWords = {
  why: 'Invites and links that confirm an address do not arrive.',
  fix: 'correct COFFER_SMTP_URL, or start the mail server.',
}

async function checkMail(config: Config): Promise<Finding> {
  const mail = openMail(config, createLog('silent'))
  try {
    await mail?.check(withinMs)
    return ok('accepts the connection and the login')
  } catch (error) {
    return wrong(`cannot be used (${codeOf(error)})`, mailWords.why, mailWords.fix)
  } finally {
    await mail?.close()
  }
}
