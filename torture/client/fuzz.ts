/**
 * A client that knows only /openapi.json sends valid, nearly valid and hostile requests to every operation with every
 * kind of credential. No response may be a 5xx, late, undeclared, or contain another tenant's data.
 */
import { join } from 'node:path'
import { type Dice, pick } from '../../test/dice.ts'
import { startListening } from '../../test/start-server.ts'
import { bothEngines, type Case, type Trial } from '../case.ts'
import { ask } from '../load/ask.ts'
import { createFuzzer } from './fuzz-request.ts'
import { type Credential, canariesIn, createTenant, remember, type Tenant } from './fuzz-world.ts'
import { findOperation, findViolation, type Operation, readOperations } from './openapi.ts'

const perRound = 2_500
const atOnce = 32
const loopbackOnly = join(import.meta.dirname, '../../test/loopback-only.ts')

export const fuzz: Case = {
  name: 'fuzz',
  about: 'requests generated from /openapi.json alone, with each kind of credential',
  engines: bothEngines,
  seconds: 110,
  async run(trial) {
    const { settings } = await trial.createDatabase()
    const service = await startListening({ ...settings, COFFER_SIGNUP: 'open' }, ['--import', loopbackOnly])
    trial.onEnd(() => service.destroy())
    const operations = await readOperations(service.url)
    const weighted = operations.flatMap((operation) => Array.from({ length: weightOf(operation) }, () => operation))
    const fuzzer = createFuzzer(trial.dice)
    const counts = { requests: 0, successes: 0, refusals: 0, operations: 0, 'operations that succeeded': 0, tenants: 0 }
    const asked = new Set<string>()
    const succeeded = new Set<string>()
    const due = trial.scale(55_000)
    while (counts.requests < due && !trial.isOver()) {
      const pair = [
        await createTenant(service.url, `t${counts.tenants}`),
        await createTenant(service.url, `t${counts.tenants + 1}`),
      ]
      counts.tenants += 2
      let left = Math.min(perRound, due - counts.requests)
      const work = async () => {
        while (left-- > 0 && !trial.isOver()) {
          const operation = pick(weighted, trial.dice)
          const status = await attack(trial, service.url, operations, operation, pair, fuzzer)
          counts.requests++
          asked.add(operation.name)
          if (status < 300) {
            counts.successes++
            succeeded.add(operation.name)
          } else counts.refusals++
        }
      }
      await Promise.all(Array.from({ length: atOnce }, work))
      trial.progress(`${counts.requests} of ${due} requests, ${counts.successes} of them succeeded`)
    }
    for (const message of service.messages().filter((text) => text === 'a request failed')) trial.report(message)
    if (service.program.hasEnded()) trial.report('the service exited')
    return { ...counts, operations: asked.size, 'operations that succeeded': succeeded.size }
  },
}

/**
 * Rare on purpose: password hashing is slow, deletes leave less to attack, and a sync step waits for an unreachable
 * vendor.
 */
function weightOf({ method, path, body }: Operation): number {
  if (path.endsWith('/logout') || (method === 'DELETE' && !/\{.*\{/.test(path))) return 1
  if (body?.properties && 'password' in body.properties && !path.includes('{')) return 2
  return method === 'DELETE' || (method === 'POST' && path.includes('/sync')) ? 4 : 20
}

async function attack(
  trial: Trial,
  url: string,
  operations: readonly Operation[],
  operation: Operation,
  pair: readonly Tenant[],
  fuzzer: ReturnType<typeof createFuzzer>,
): Promise<number> {
  const { dice } = trial
  const ownTenant = pick(pair, dice)
  const credential = credentialOf(ownTenant, dice)
  const target = dice(5) === 0 ? pick(pair, dice) : ownTenant
  const { path, body, headers } = fuzzer(operation, target.world)
  const where = `${operation.method} ${path} as ${credential.kind} with ${body?.slice(0, 500)} ${JSON.stringify(headers).slice(0, 200)}`
  try {
    const answer = await ask(url, operation.method, path, { token: credential.token, body, headers })
    const violation = findViolation(findOperation(operations, operation.method, path), answer)
    if (violation) trial.report(`${where}: ${violation.slice(0, 500)}`)
    // Anyone with the link of a share may read it.
    const isShare = operation.path.startsWith('/v1/share/')
    const foreign = [...canariesIn(answer.text)].filter((tenant) => tenant !== credential.tenant)
    if (foreign.length > 0 && !isShare) trial.report(`${where}: contains data of ${foreign}`)
    if (answer.status === 200 && target === ownTenant) remember(ownTenant, answer.text)
    return answer.status
  } catch (error) {
    trial.report(`${where}: no response, ${String(error)} ${String(error instanceof Error ? error.cause : '')}`)
    return 0
  }
}

function credentialOf({ credentials }: Tenant, dice: Dice): Credential {
  const chance = dice(20)
  if (chance === 0) return { kind: 'no credential', tenant: '', token: undefined }
  if (chance === 1) return { kind: 'an unknown token', tenant: '', token: `cof_live_${'A'.repeat(36)}` }
  return pick(credentials, dice)
}
