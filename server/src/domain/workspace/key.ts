/**
 * Rotates keys while the service runs. Every step is a short transaction that finds the remaining work itself, so an
 * interrupted rotation continues when it is run again.
 */
import { Failure } from '../../failure.ts'
import {
  countRootUses,
  insertNextEnvironmentKey,
  insertNextWorkspaceKey,
  moveEnvironmentKeys,
  moveSigningKeys,
  moveWorkspaceKeys,
  type RootUses,
  removeOlderEnvironmentKeys,
  removeUnusedRoots,
  removeUnusedWorkspaceKeys,
} from '../../store/key/rotation.ts'
import { readKeyRows } from '../../store/key/rows.ts'
import type { ResealCursor } from '../../store/secret/value.ts'
import { systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import { findEnvironmentByName } from '../cache/workspace-snapshot.ts'
import type { Context, WriteContext } from '../context.ts'
import { announce, inTransaction } from '../transaction.ts'

/** Rows per transaction: small enough not to delay other writers. */
const batchSize = 50
/** After this long every node has read the change log, and seals only with the new root key. */
const defaultSettleMs = 2_000

type RotationProgress = (what: string, done: number) => void
type Moves = readonly [what: string, move: (ctx: WriteContext) => Promise<number>][]

export async function rotateRoot(ctx: Context, progress: RotationProgress, settleMs = defaultSettleMs): Promise<void> {
  if (!(await startRootRotation(ctx))) progress('continuing an unfinished rotation', 0)
  let settled: string
  do {
    await moveAllToActiveRoot(ctx, progress)
    settled = ctx.keys.keyring.active.id
    // A node that did not know the new root key yet may have used the old one: the second pass moves those rows.
    await ctx.sleep(settleMs)
    await moveAllToActiveRoot(ctx, progress)
  } while (settled !== ctx.keys.keyring.active.id)
  const removed = await inTransaction(ctx, systemChain, async (ctx) => {
    const count = await removeUnusedRoots(ctx.transaction.db, ctx.keys)
    if (count > 0) announce(ctx, 'keyring', 'root')
    return count
  })
  progress('old root keys removed', removed)
}

/** False if a rotation is unfinished, because it was interrupted or another process has just started it. */
async function startRootRotation(ctx: Context): Promise<boolean> {
  const isStarted = await inTransaction(ctx, systemChain, async (ctx) => {
    if (await isRotationUnfinished(ctx)) return false
    const rootId = await ctx.keys.turn(ctx.transaction.db, ctx.now())
    announce(ctx, 'keyring', rootId)
    record(ctx, { chain: systemChain, action: 'ROTATE', entity: { type: 'root-key', id: rootId, name: '' } })
    return true
  })
  await ctx.keys.reload()
  return isStarted
}

/**
 * Only keys and MACs count, as they can be moved at any time. Hashes of tokens and sessions move at their next use, and
 * those of invites disappear with the invite.
 */
async function isRotationUnfinished({ transaction }: WriteContext): Promise<boolean> {
  const roots = await countRootUses(transaction.db)
  return roots.some((root) => !root.isActive && root.workspaceKeys + root.signingKeys + root.macs > 0)
}

async function moveAllToActiveRoot(ctx: Context, progress: RotationProgress): Promise<void> {
  const moves: Moves = [
    ['workspace keys', (ctx) => moveWorkspaceKeys(ctx.transaction.db, ctx.keys, batchSize)],
    ['signing keys', (ctx) => moveSigningKeys(ctx.transaction.db, ctx.keys, batchSize)],
    ['memberships', (ctx) => ctx.store.members.resign(batchSize)],
    ['service accounts', (ctx) => ctx.store.serviceAccounts.resign(batchSize)],
    ['workspace policies', (ctx) => ctx.store.policies.resign(batchSize)],
    ['ended invites', (ctx) => ctx.store.invites.forgetEndedHashes(ctx.now(), batchSize)],
    ['invites', (ctx) => ctx.store.invites.resign(batchSize)],
    ['ended tokens', (ctx) => ctx.store.tokens.forgetEndedHashes(ctx.now(), batchSize)],
    ['shares', (ctx) => ctx.store.shares.resign(batchSize)],
    ['tokens', (ctx) => ctx.store.tokens.resign(batchSize)],
    ['identities', (ctx) => ctx.store.oidc.resign(batchSize)],
    ['accounts', (ctx) => ctx.store.accounts.resign(batchSize)],
    ['sessions', (ctx) => ctx.store.sessions.resign(batchSize)],
    ['second factors of sessions', (ctx) => ctx.store.sessionFactors.resign(batchSize)],
    ['second factors', (ctx) => ctx.store.mfa.moveToActiveRoot(batchSize)],
    ['email confirmations', (ctx) => ctx.store.emailConfirmations.resign(batchSize)],
    ['device logins', (ctx) => ctx.store.devices.resign(batchSize)],
    ['sets of rows', (ctx) => ctx.store.rowSets.moveToActiveRoot(batchSize)],
  ]
  await moveAll(ctx, systemChain, moves, progress, followRoot)
}

/** A concurrent rotation may have activated another root key. Moving rows to two different roots would never end. */
async function followRoot({ keys, transaction }: WriteContext): Promise<void> {
  const [active] = (await readKeyRows(transaction.db)).roots
  if (active?.id !== keys.keyring.active.id) await keys.reload()
}

/** Moves rows batch by batch until none are left. */
async function moveAll(
  ctx: Context,
  chain: string,
  moves: Moves,
  progress: RotationProgress,
  prepare: (ctx: WriteContext) => Promise<void> = async () => undefined,
): Promise<void> {
  for (const [what, move] of moves) {
    let done = 0
    let moved = batchSize
    while (moved > 0) {
      moved = await inTransaction(ctx, chain, async (ctx) => {
        await prepare(ctx)
        return move(ctx)
      })
      done += moved
      if (moved > 0) progress(what, done)
    }
  }
}

export async function rotateWorkspaceKey(
  ctx: Context,
  slugOrId: string,
  progress: RotationProgress,
  settleMs = defaultSettleMs,
): Promise<void> {
  const workspaceId = await ctx.store.workspaces.findIdForAnybody(slugOrId)
  if (workspaceId === undefined) throw new Failure('notFound', `There is no workspace "${slugOrId}".`)
  await inTransaction(ctx, workspaceId, async (ctx) => {
    const version = await insertNextWorkspaceKey(ctx.transaction.db, ctx.keys, workspaceId, ctx.now())
    const entity = { type: 'workspace-key', id: workspaceId, name: `version ${version}` }
    record(ctx, { chain: workspaceId, action: 'ROTATE', entity })
  })
  const moves: Moves = [
    ['environment keys', (ctx) => moveEnvironmentKeys(ctx.transaction.db, ctx.keys, workspaceId, batchSize)],
    ['shares', (ctx) => ctx.store.shares.reseal(workspaceId, batchSize)],
    ['syncs', (ctx) => ctx.store.syncs.reseal(workspaceId, batchSize)],
  ]
  await moveAll(ctx, workspaceId, moves, progress)
  // A request may have read a row sealed under the old key, and be about to load that key.
  await ctx.sleep(settleMs)
  await moveAll(ctx, workspaceId, moves, progress)
  const removed = await inTransaction(ctx, workspaceId, (ctx) =>
    removeUnusedWorkspaceKeys(ctx.transaction.db, workspaceId),
  )
  progress('old workspace keys removed', removed)
}

export async function rotateEnvironmentKey(
  ctx: Context,
  path: { workspace: string; project: string; environment: string },
  progress: RotationProgress,
  settleMs = defaultSettleMs,
): Promise<void> {
  const workspaceId = await ctx.store.workspaces.findIdForAnybody(path.workspace)
  const snapshot = workspaceId === undefined ? undefined : await ctx.snapshots.get(workspaceId)
  const project = snapshot && (snapshot.projectsBySlug.get(path.project) ?? snapshot.projects.get(path.project))
  const environment =
    project && (findEnvironmentByName(project, path.environment) ?? snapshot.environments.get(path.environment))
  if (!snapshot || workspaceId === undefined || environment?.projectId !== project?.id || !environment) {
    throw new Failure(
      'notFound',
      `There is no environment "${path.environment}" in project "${path.project}" of workspace "${path.workspace}".`,
    )
  }
  const owner = { workspaceId, environmentId: environment.id }
  const newest = await inTransaction(ctx, workspaceId, async (ctx) => {
    const version = await insertNextEnvironmentKey(ctx.transaction.db, ctx.keys, owner, ctx.now())
    const entity = { type: 'environment-key', id: environment.id, name: `version ${version}` }
    record(ctx, { chain: workspaceId, action: 'ROTATE', entity, environmentId: environment.id })
    // Nodes drop the old key together with their snapshot of the workspace.
    announce(ctx, 'workspace', workspaceId)
    return version
  })
  await resealAll(ctx, owner, newest, progress)
  await ctx.sleep(settleMs)
  await resealAll(ctx, owner, newest, progress)
  const removed = await inTransaction(ctx, workspaceId, async (ctx) => {
    announce(ctx, 'workspace', workspaceId)
    return removeOlderEnvironmentKeys(ctx.transaction.db, environment.id, newest)
  })
  progress('old environment keys removed', removed)
}

async function resealAll(
  ctx: Context,
  owner: { workspaceId: string; environmentId: string },
  newest: number,
  progress: RotationProgress,
): Promise<void> {
  const memory = { byVersion: new Map(), newest: new Map() }
  let cursor: ResealCursor | undefined = { secretId: '', source: '', ownerId: '', version: 0 }
  let done = 0
  while (cursor) {
    const after: ResealCursor = cursor
    const { next, resealed } = await inTransaction(ctx, owner.workspaceId, (ctx) =>
      ctx.store.secretValues.reseal(owner, after, newest, memory, batchSize),
    )
    cursor = next
    done += resealed
    if (resealed > 0) progress('values re-encrypted', done)
  }
}

type RootStatus = RootUses & { readonly checkValue: string; readonly createdAt: number }

export async function listRootStatus(ctx: Context): Promise<RootStatus[]> {
  const uses = await countRootUses(ctx.engine)
  const { roots } = await readKeyRows(ctx.engine)
  return roots.flatMap((row) => {
    const use = uses.find((candidate) => candidate.id === row.id)
    return use ? [{ ...use, checkValue: Buffer.from(row.checkValue).toString('hex'), createdAt: row.createdAt }] : []
  })
}
