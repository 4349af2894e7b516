/**
 * Who wrote a value that refers to others. Whoever reads such a value follows its references with their own rights. Where it
 * is handed on in somebody else's name, by a sync or a share, its references lead no further than its authors may read:
 * nobody sees through another's eyes by writing `${production.KEY}`. Whoever copies it (restores, promotes) is an author too.
 *
 * Kept as `user:<id>`, `token:<id>:<user>` and `oidc:<id>`, with a space between. A `!` behind an author says that it did not
 * reach all of what it referred to when it wrote, a `~` that it did, but not the whole workspace. The value's seal is bound
 * to it.
 */
import { type Access, type ProjectAccess, reachesEnvironments } from '../access/access.ts'
import { type Reach, reachesAll, toScopeSet } from '../access/scope.ts'
import type { Actor, Context } from '../context.ts'
import { referenceOptions } from './read.ts'
import { surveyReferences } from './reference/reference.ts'

const separator = ' '
const outOfReach = '!'
const partly = '~'

type Written = {
  readonly key: string
  readonly environment: { readonly id: string }
  readonly value: string | null
  readonly copiedFrom?: string
}

/** Nobody, where the text refers to nothing, as most values do. */
export function authorsOf(ctx: Context, access: ProjectAccess, written: Written): string {
  const { key, environment, value, copiedFrom = '' } = written
  if (value === null) return ''
  const { references } = surveyReferences(value)
  if (references.length === 0) return ''
  const { locate } = referenceOptions(ctx, access, '')
  const isReached = references.every((reference) => locate(environment.id, reference, key))
  const name = nameOf(ctx.actor)
  const others = copiedFrom.split(separator).filter((author) => author !== '' && nameIn(author) !== name)
  const reach = isReached ? (reachesAll(access.reach) ? '' : partly) : outOfReach
  return [...others, `${name}${reach}`].join(separator)
}

function nameOf({ type, id, userId }: Actor): string {
  return type === 'token' ? `token:${id}:${userId}` : `${type}:${id}`
}

const nameIn = (author: string) => author.replace(/[!~]$/, '')

/** What authors may read now. */
export type Judge = {
  /** Before they are judged: tokens and identities are looked up, all that are new in one go. */
  meet(authors: Iterable<string>): Promise<void>
  /** `isNamed`: the value itself refers there; otherwise only what it refers to does. */
  mayRead(authors: string, environmentId: string, isNamed: boolean): boolean
}

/** Of an author: what their own words may lead to, and what others' words behind them may. */
type Reaches = { readonly named: Reach; readonly beyond: Reach }

const everything: Reach = Object.freeze([])
const nothing: Reach = [toScopeSet({ all: false, teams: [], projects: [], environments: [] })]

export function createJudge(ctx: Context, access: Access): Judge {
  const { picture } = access
  const workspaceId = picture.workspace.id
  const known = new Map<string, Reaches>()

  async function meet(authors: Iterable<string>): Promise<void> {
    const fresh = new Set([...new Set(authors)].flatMap((all) => all.split(separator)))
    for (const author of fresh) if (author === '' || known.has(author)) fresh.delete(author)
    const described = [...fresh].map((author) => {
      const [type = '', id = '', userId = ''] = nameIn(author).split(':')
      return { author, type, id, userId }
    })
    const idsOf = (wanted: string) => described.flatMap(({ type, id }) => (type === wanted ? [id] : []))
    const grants = [
      ...(await ctx.store.tokens.listByIds(idsOf('token'), workspaceId)),
      ...(await ctx.store.oidc.listByIds(idsOf('oidc'), workspaceId)),
    ]
    const scopes = new Map(grants.map(({ id, scope }) => [id, toScopeSet(scope)]))
    for (const { author, type, id, userId } of described) {
      const member = picture.membersByUser.get(type === 'token' ? userId : id)?.scopeSet
      const scope = scopes.get(id)
      // Whoever went, or let a token go, must not gain by it: what they could not reach then is not reached without them.
      const judged = (left: Reach): Reach => {
        if (type === 'user') return member ? [member] : left
        if (type === 'oidc') return scope ? [scope] : left
        if (scope) return member ? [member, scope] : left
        return left === everything && member ? [member] : left
      }
      const named = author.endsWith(outOfReach) ? nothing : everything
      const beyond = author.endsWith(partly) ? nothing : named
      known.set(author, { named: judged(named), beyond: judged(beyond) })
    }
  }

  function mayRead(authors: string, environmentId: string, isNamed: boolean): boolean {
    return authors.split(separator).every((author) => {
      const { named, beyond } = known.get(author) ?? { named: nothing, beyond: nothing }
      return author === '' || reachesEnvironments({ ...access, reach: isNamed ? named : beyond }, [environmentId])
    })
  }

  return { meet, mayRead }
}
