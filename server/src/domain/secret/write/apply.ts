/**
 * Stores planned changes: one revision per environment. Versions, audit entry and the announcement to other nodes
 * commit in the same transaction.
 */
import type { EnvironmentCount } from '../../../store/secret/stored-value.ts'
import type { SealedValue, VersionRow } from '../../../store/secret/value.ts'
import type { ProjectAccess } from '../../access/access.ts'
import type { AuditEvent } from '../../audit/event.ts'
import { record } from '../../audit/record.ts'
import type { WriteContext } from '../../context.ts'
import { recordSecrets, secretsEntity } from '../audit-record.ts'
import { announceSecrets } from './announce.ts'
import { isDescribedAnew, type Planned, type WritePlan, withFields } from './plan.ts'
import type { Revisions } from './revision.ts'

/** Changes of one request: one revision per environment, and one audit entry. */
export type ProjectChange = WritePlan & {
  readonly revisions: Revisions
  readonly message: string
}

type Counts = ReadonlyMap<string, EnvironmentCount>

/**
 * The only function that changes values. Notes and types are stored by `applyDescriptions`. Takes the counts of the
 * environments from before, and returns those that it has changed.
 */
export function applyChange(ctx: WriteContext, access: ProjectAccess, change: ProjectChange, before: Counts): Counts {
  const { snapshot, project } = access
  const { store } = ctx
  const { planned, fresh, revisions, message } = change
  if (planned.length === 0) return new Map()
  const workspaceId = snapshot.workspace.id
  if (fresh.size > 0) {
    store.secrets.insertMany([...fresh.values()])
    store.secrets.countAll(project.id, workspaceId, fresh.size)
  }
  const counts = takeRevisions(ctx, workspaceId, change, before)
  const now = revisions.at
  const by = { createdAt: now, createdBy: ctx.actor.name, message }
  const values: (SealedValue & { workspaceId: string })[] = []
  const versions: (VersionRow & { workspaceId: string })[] = []
  for (const { edit, secret, ownerId, status, version, authors } of planned) {
    const environmentId = edit.environment.id
    const place = { workspaceId, projectId: project.id, environmentId, secretId: secret.id, ownerId }
    const sealed =
      edit.value === null
        ? null
        : store.secretValues.seal(place, version, edit.value, authors, snapshot.environmentKeys)
    values.push({ ...place, version, sealed, authors, updatedAt: now })
    if (ownerId !== '') continue
    const revision = revisions.of(environmentId)
    versions.push({ ...place, version, revision, name: secret.name, action: status, sealed, authors, ...by })
  }
  store.secretValues.putMany(values)
  store.secretValues.insertVersions(versions)
  record(ctx, describeChange(access, change))
  announceSecrets(ctx, access, new Set(planned.map(({ edit }) => edit.environment.id)))
  return counts
}

/** Stores new notes and types of secrets that were there before. False if there are none. */
export async function applyDescriptions(
  ctx: WriteContext,
  access: ProjectAccess,
  change: ProjectChange,
): Promise<boolean> {
  const { planned, fresh, described, revisions } = change
  const touched = planned.filter(({ edit, secret }) => isDescribedAnew(secret, edit) && !fresh.has(secret.name))
  const withValue = new Map(touched.map(({ edit, secret }) => [secret.id, withFields(secret, edit)]))
  await ctx.store.secrets.updateMany([...withValue.values()].map((secret) => ({ ...secret, updatedAt: revisions.at })))
  if (described.size === 0) return withValue.size > 0
  const updatedAt = ctx.now()
  const secrets = [...described.values()]
  // The entry of the changed values names the equal ones already, if there is one.
  const unchanged = planned.length > 0 ? {} : nameUnchanged(change)
  await ctx.store.secrets.updateMany(secrets.map((secret) => ({ ...secret, updatedAt })))
  recordSecrets(ctx, access, 'UPDATE', secrets, (secret) => {
    const { type, dataType } = secret
    return { type, dataType, ...(secret === secrets[0] && unchanged) }
  })
  return true
}

/** Takes at most one revision number per environment, and counts its values. */
function takeRevisions(
  ctx: WriteContext,
  workspaceId: string,
  { planned, revisions }: ProjectChange,
  before: Counts,
): Counts {
  const shared = planned.filter(({ ownerId }) => ownerId === '')
  const after = new Map<string, EnvironmentCount>()
  for (const [environmentId, entries] of Map.groupBy(shared, ({ edit }) => edit.environment.id)) {
    const known = before.get(environmentId)
    if (!known) throw new Error('the environment was not read before it is changed')
    if (revisions.of(environmentId) === 0) revisions.set(environmentId, known.revision + 1)
    const total = entries.reduce((sum, { status }) => sum + countedBy[status], known.total)
    const count = { revision: revisions.of(environmentId), total }
    ctx.store.secretValues.saveCount(environmentId, workspaceId, count, ctx.now())
    after.set(environmentId, count)
  }
  return after
}

const countedBy = { created: 1, updated: 0, deleted: -1 } as const

/** One audit entry for the whole request. It names keys and actions, never values. */
function describeChange({ snapshot, project }: ProjectAccess, change: ProjectChange): AuditEvent {
  const { planned, unchanged, message } = change
  const [first] = planned
  const isOne = (what: (one: Planned) => string) => planned.every((one) => first && what(one) === what(first))
  const isOneSecret = isOne(({ secret }) => secret.id)
  return {
    chain: snapshot.workspace.id,
    action: first && isOne(({ status }) => status) ? actions[first.status] : 'UPDATE',
    entity:
      first && isOneSecret ? { type: 'secret', id: first.secret.id, name: first.secret.name } : secretsEntity(project),
    projectId: project.id,
    environmentIds: [...planned.map(({ edit }) => edit), ...unchanged].map(({ environment }) => environment.id),
    after: {
      ...(message !== '' && { message }),
      changes: planned.map(({ edit, secret, status, version }) => ({
        ...(!isOneSecret && { id: secret.id }),
        key: edit.key,
        environment: edit.environment.name,
        status,
        version,
        ...(edit.isPersonal && { personal: true }),
      })),
      ...nameUnchanged(change),
    },
  }
}

function nameUnchanged({ unchanged }: ProjectChange) {
  if (unchanged.length === 0) return {}
  return {
    unchanged: unchanged.map(({ key, environment, isPersonal }) => ({
      key,
      environment: environment.name,
      ...(isPersonal && { personal: true }),
    })),
  }
}

const actions = { created: 'CREATE', updated: 'UPDATE', deleted: 'DELETE' } as const
