/**
 * Authors of values that contain references. Readers follow references with their own rights. A sync or a share acts in
 * one person's name, so its references also reach only what the authors of the value may read. Otherwise an author
 * could write `${production.KEY}` and use that person's rights. Copying a value (restore, promote) adds the copier as
 * an author.
 *
 * Authors are stored as `user:<id>`, `token:<id>:<owner>` and `oidc:<id>`, separated by spaces, and are part of the
 * value's AAD. The suffix `!` marks an author who could not reach every referenced value when writing; `~` marks one
 * who could, but who did not reach the whole workspace.
 */
import { type Access, type ProjectAccess, reachesEnvironments } from '../../access/access.ts'
import type { Actor } from '../../actor.ts'
import type { Context } from '../../context.ts'
import { type Reach, reachesAll, toScopeSet } from '../../scope.ts'
import { referenceOptions } from './follow.ts'
import { surveyReferences } from './reference.ts'

const separator = ' '
const outOfReach = '!'
const partly = '~'

type Written = {
  readonly key: string
  readonly environment: { readonly id: string }
  readonly value: string | null
  readonly copiedFrom?: string
}

/** Empty for values without references, which most are. */
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

/** Decides what authors may read now. */
type AuthorRights = {
  /** Call before `mayRead`: looks up the tokens and identities of all new authors at once. */
  load(authors: Iterable<string>): Promise<void>
  /** `isNamed`: the value itself refers to this environment; otherwise only values behind its references do. */
  mayRead(authors: string, environmentId: string, isNamed: boolean): boolean
}

/** Reach of an author: `named` for references in their own value, `beyond` for references in the values behind it. */
type Reaches = { readonly named: Reach; readonly beyond: Reach }

const everything: Reach = Object.freeze([])
const nothing: Reach = [toScopeSet({ all: false, teams: [], projects: [], environments: [] })]

export function createAuthorRights(ctx: Context, access: Access): AuthorRights {
  const { snapshot } = access
  const workspaceId = snapshot.workspace.id
  const known = new Map<string, Reaches>()

  async function load(authors: Iterable<string>): Promise<void> {
    const fresh = new Set([...new Set(authors)].flatMap((all) => all.split(separator)))
    for (const author of fresh) if (author === '' || known.has(author)) fresh.delete(author)
    const described = [...fresh].map((author) => {
      const [type = '', id = '', ownerId = ''] = nameIn(author).split(':')
      return { author, type, id, ownerId }
    })
    const idsOf = (wanted: string) => described.flatMap(({ type, id }) => (type === wanted ? [id] : []))
    const grants = [
      ...(await ctx.store.tokens.listByIds(idsOf('token'), workspaceId)),
      ...(await ctx.store.oidc.listByIds(idsOf('oidc'), workspaceId)),
    ]
    const scopes = new Map(grants.map(({ id, scope }) => [id, toScopeSet(scope)]))
    for (const { author, type, id, ownerId } of described) {
      const member = snapshot.principals.get(type === 'token' ? ownerId : id)?.rights.member
      const scope = scopes.get(id)
      // Deleting an author or a token must not extend its reach: what was unreachable when writing stays unreachable.
      const reachNow = (left: Reach): Reach => {
        if (type === 'user') return member ? [member] : left
        if (type === 'oidc') return scope ? [scope] : left
        if (scope) return member ? [member, scope] : left
        return left === everything && member ? [member] : left
      }
      const named = author.endsWith(outOfReach) ? nothing : everything
      const beyond = author.endsWith(partly) ? nothing : named
      known.set(author, { named: reachNow(named), beyond: reachNow(beyond) })
    }
  }

  function mayRead(authors: string, environmentId: string, isNamed: boolean): boolean {
    return authors.split(separator).every((author) => {
      const { named, beyond } = known.get(author) ?? { named: nothing, beyond: nothing }
      return author === '' || reachesEnvironments({ snapshot, reach: isNamed ? named : beyond }, [environmentId])
    })
  }

  return { load, mayRead }
}
