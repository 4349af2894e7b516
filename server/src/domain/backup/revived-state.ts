/**
 * The end of a restore that goes back in time. What was ended or changed since the backup must not quietly come back:
 * sessions, shares and syncs are put to rest, and tokens are listed for review.
 */
import { newId } from '../../crypto/id.ts'
import { type Engine, readOnly } from '../../store/engine/sql.ts'
import type { Keys } from '../../store/key/key.ts'
import { endRestore } from '../../store/restore-target.ts'
import { revivedStateStore } from '../../store/revived-state.ts'
import { type ReadStore, storeOver } from '../../store/store.ts'
import type { TokenRecord } from '../../store/token.ts'
import { systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import type { Context } from '../context.ts'
import { tokenEntity } from '../credential/token-issue.ts'
import { inTransaction } from '../transaction.ts'
import type { Loaded } from './load.ts'

/**
 * `valid`: valid when the backup was made, and perhaps revoked since. `revoked`: no longer valid, by this restore.
 * `lost`: made since the backup, and not in it.
 */
export type TokenFinding = {
  readonly kind: 'valid' | 'revoked' | 'lost'
  readonly workspace: string
  readonly token: TokenRecord
}

type RevivalOptions = {
  /** Revokes every token. */
  readonly revokeTokens: boolean
  /** The store that was lost, if it can still be read: tokens that changed there since are revoked here. */
  readonly since: { readonly engine: Engine; readonly keys: Keys } | undefined
  readonly onToken: (finding: TokenFinding) => void
}

export type Revival = {
  readonly sessions: number
  readonly syncs: number
  readonly shares: number
  readonly revokedTokens: number
  readonly generation: string
}

export async function endRevivedState(
  ctx: Context,
  { manifest, mark }: Loaded,
  options: RevivalOptions,
): Promise<Revival> {
  const since = options.since && storeOver(readOnly(options.since.engine), options.since.keys)
  let revokedTokens = 0
  for await (const workspace of listWorkspaces(ctx.store)) {
    revokedTokens += await reviewTokens(ctx, workspace, since, options)
  }
  if (since) await listLost(ctx.store, since, ctx.now(), options)
  return inTransaction(ctx, systemChain, async (ctx) => {
    const state = revivedStateStore(ctx.transaction.db)
    const generation = newId()
    const sessions = await state.endSessions()
    const syncs = await state.pauseSyncs(ctx.now())
    const shares = await state.revokeShares(ctx.now())
    await state.startGeneration(generation)
    const counts = { sessions, syncs, shares, revokedTokens }
    record(ctx, {
      chain: systemChain,
      action: 'UPDATE',
      entity: { type: 'instance', id: manifest.id, name: 'restore' },
      after: { backupOf: new Date(manifest.createdAt).toISOString(), digest: manifest.digest, generation, ...counts },
    })
    await endRestore(ctx.transaction.db, mark)
    return { ...counts, generation }
  })
}

type Workspace = { readonly id: string; readonly slug: string }

async function* listWorkspaces({ workspaces }: ReadStore): AsyncGenerator<Workspace> {
  let next = await workspaces.findAfter('')
  for (; next; next = await workspaces.findAfter(next.id)) yield next
}

const tokensPerPage = 100

async function* listLiving({ tokens }: ReadStore, workspaceId: string, nowMs: number): AsyncGenerator<TokenRecord> {
  let page: TokenRecord[]
  let after = ''
  do {
    page = await tokens.listLiving(workspaceId, nowMs, { after, limit: tokensPerPage })
    yield* page
    after = page.at(-1)?.id ?? after
  } while (page.length === tokensPerPage)
}

/** Returns the number of revoked tokens. */
async function reviewTokens(
  ctx: Context,
  workspace: Workspace,
  since: ReadStore | undefined,
  { revokeTokens, onToken }: RevivalOptions,
): Promise<number> {
  let revoked = 0
  for await (const token of listLiving(ctx.store, workspace.id, ctx.now())) {
    const isOver = revokeTokens || (since !== undefined && (await hasChanged(since, token, ctx.now())))
    if (isOver) await revoke(ctx, token)
    if (isOver) revoked++
    onToken({ kind: isOver ? 'revoked' : 'valid', workspace: workspace.slug, token })
  }
  return revoked
}

/** Revoked, deleted or rotated since: its value of then must not be accepted again. */
async function hasChanged(since: ReadStore, token: TokenRecord, nowMs: number): Promise<boolean> {
  const current = await since.tokens.find(token.id, token.workspaceId)
  if (!current || current.revokedAt !== null || current.generation !== token.generation) return true
  return current.expiresAt !== null && current.expiresAt <= nowMs
}

async function revoke(ctx: Context, token: TokenRecord): Promise<void> {
  const previous = { previousHash: null, previousHashRootId: null, previousUntil: null }
  await inTransaction(ctx, token.workspaceId, async (ctx) => {
    await ctx.store.tokens.update({ ...token, ...previous, revokedAt: ctx.now() }, token)
    record(ctx, { chain: token.workspaceId, action: 'DELETE', entity: tokenEntity(token) })
  })
}

/** Also those of workspaces that were made since. */
async function listLost(
  restored: ReadStore,
  since: ReadStore,
  nowMs: number,
  { onToken }: RevivalOptions,
): Promise<void> {
  for await (const workspace of listWorkspaces(since)) {
    for await (const token of listLiving(since, workspace.id, nowMs)) {
      const isKnown = await restored.tokens.find(token.id, workspace.id)
      if (!isKnown) onToken({ kind: 'lost', workspace: workspace.slug, token })
    }
  }
}
