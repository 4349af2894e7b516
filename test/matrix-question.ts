/** Cells of the authorisation matrix as questions to `explain`, which must say what the request gets. */
import { type Explanation, explainedActions } from '@coffer/contract/access'
import { createDice, seed } from './dice.ts'
import type { Call } from './harness.ts'
import type { Cell } from './matrix-cell.ts'
import { type Caller, expectedStatus, rights } from './matrix-right.ts'
import { choosePairwise } from './pairwise.ts'
import { isDeep } from './tier.ts'
import type { World } from './world.ts'

type Question = {
  readonly title: string
  readonly query: string
  readonly features: readonly string[]
  readonly statuses: readonly number[]
}

const batchSize = 12

/** Asks every question of the cells in the deep tier, in the fast one each actor and each pair of action and place. */
export async function findDisagreements(
  call: Call,
  world: World,
  asker: Caller,
  plan: ReadonlyMap<Caller, readonly Cell[]>,
): Promise<{ count: number; wrong: string[] }> {
  const questions = new Map<string, Question>()
  for (const [caller, cells] of plan) {
    for (const cell of cells) {
      const question = questionOf(world, caller, cell)
      if (question) questions.set(question.query, question)
    }
  }
  const every = [...questions.values()]
  const chosen = isDeep ? every : choosePairwise(every, ({ features }) => features, createDice(seed))
  const ask = async ({ title, query, statuses }: Question) => {
    const path = `/v1/workspace/${world.slug}/explain?${query}`
    const { body, text, status } = await call<Explanation>('GET', path, asker.options)
    const isRight = status === 200 && statuses.includes(body.status) && body.allowed === (body.status === 200)
    return isRight ? [] : [`${title}: expected ${statuses.join(' or ')}, explained as ${text}`]
  }
  const wrong: string[] = []
  for (let start = 0; start < chosen.length; start += batchSize) {
    wrong.push(...(await Promise.all(chosen.slice(start, start + batchSize).map(ask))).flat())
  }
  return { count: chosen.length, wrong }
}

/** Undefined if more than the permission and one place decides about the request. */
function questionOf(world: World, caller: Caller, { name, ask, endpoint, title }: Cell): Question | undefined {
  const actor = caller.actor ?? caller.tokens.itself
  const action = explainedActions.find((known) => known === endpoint.permission)
  if (!caller.isAlive || caller.grants.length === 0 || actor === undefined || !action) return undefined
  const { status: _own, ...plain } = ask
  const { token, newToken, whole, needs, from, isPersonal, isMalformed, isAboutShare } = ask
  if ([token, newToken, whole, needs, from, isPersonal, isMalformed, isAboutShare].some((one) => one !== undefined)) {
    return undefined
  }
  const right = rights[name]
  const isTwofold = typeof right === 'object' && right.whole === true && ask.on !== undefined
  const place = placeOf(world, { ask, endpoint })
  if (isTwofold || !place) return undefined
  const status = expectedStatus(world, caller, name, plain)
  const query = new URLSearchParams({ actor, action, ...place }).toString()
  const grants = JSON.stringify(caller.grants)
  const features = [`${action} ${Object.values(place).join()}`, `actor ${caller.kind} ${caller.permission}`, grants]
  if (status < 300) return { title, query, features, statuses: [200] }
  // Requests with the environment in the body are refused for their permission first, those with it in the path are not.
  const isEither = status === 404 && endpoint.permission === 'secret:write' && 'environment' in place
  return { title, query, features, statuses: isEither ? [403, 404] : [status] }
}

type Place = { team: string } | { project: string } | { environment: string } | Record<string, never>

function placeOf(world: World, { ask, endpoint }: Pick<Cell, 'ask' | 'endpoint'>): Place | undefined {
  const { on, into } = ask
  // A sync is known to the admins of its environment alone, whatever they may do there.
  const isNarrowed = on === undefined || (endpoint.area !== 'sync' && world.environmentNames.has(String(into)))
  if (into !== undefined && (!isNarrowed || endpoint.permission === 'token:create')) return undefined
  const id = into ?? on
  if (id === undefined) return {}
  if (typeof id !== 'string' || !world.containers.has(id)) return undefined
  if (Object.values(world.teams).includes(id)) return { team: id }
  return Object.values(world.projects).includes(id) ? { project: id } : { environment: id }
}
