/** Forecasts whom a policy shuts out: by what people have proven, the age of tokens, and the addresses last seen. */
import type { ShutOut } from '@coffer/contract/policy'
import { type Account, proofsOf } from '../../store/account/account.ts'
import type { TokenRecord } from '../../store/token.ts'
import type { Access } from '../access/access.ts'
import type { WorkspaceSnapshot } from '../cache/workspace-snapshot.ts'
import type { Context } from '../context.ts'
import { isEnded, lastUseOf } from '../credential/token.ts'
import { findUnmetRule, type PersonProofs, type PolicyRules, type UnmetRule } from '../policy.ts'

const pageLength = 500

export async function listShutOut(ctx: Context, { snapshot }: Access, policy: PolicyRules): Promise<ShutOut[]> {
  const workspaceId = snapshot.workspace.id
  const accounts = await ctx.store.accounts.listOfWorkspace(workspaceId)
  const people = await listPeople(ctx, workspaceId, policy, accounts)
  const tokens = await listLiveTokens(ctx, workspaceId)
  const owners = new Map(accounts.map((account) => [account.id, account]))
  return [
    ...people,
    ...listServices(ctx, snapshot, policy, tokens),
    ...tokens.flatMap((token) => forecastToken(ctx, policy, owners, token) ?? []),
  ]
}

async function listPeople(
  ctx: Context,
  workspaceId: string,
  policy: PolicyRules,
  accounts: readonly Account[],
): Promise<ShutOut[]> {
  const addresses = await ctx.store.sessions.listLastAddresses(workspaceId, ctx.now())
  // The address of this request is newer than the one that the session was opened from.
  addresses.set(ctx.actor.userId, ctx.request.ip)
  return accounts.flatMap((account) => {
    const address = addresses.get(account.id)
    const unmet = findUnmetRule(policy, { person: provenBy(account), address }, ctx.now())
    if (!unmet) return []
    return { type: 'user', id: account.id, name: account.email, reason: reasonOf(policy, unmet, address) }
  })
}

type LiveToken = TokenRecord & { readonly usedAt: number; readonly address: string | undefined }

async function listLiveTokens(ctx: Context, workspaceId: string): Promise<LiveToken[]> {
  const live: LiveToken[] = []
  // Sorts after every id.
  let before: string | undefined = 'z'
  while (before !== undefined) {
    const page: { tokens: TokenRecord[]; next: string | undefined } = await ctx.store.tokens.list(workspaceId, null, {
      before,
      limit: pageLength,
    })
    for (const token of page.tokens.filter((token) => !isEnded(token, ctx.now()))) {
      const { at, ip } = lastUseOf(ctx, token)
      live.push({ ...token, usedAt: at ?? 0, address: ip ?? undefined })
    }
    before = page.next
    await ctx.longWork.giveWay()
  }
  return live
}

/** A service account was last seen where its tokens were. */
function listServices(
  ctx: Context,
  snapshot: WorkspaceSnapshot,
  policy: PolicyRules,
  tokens: readonly LiveToken[],
): ShutOut[] {
  const lastTokens = new Map<string, LiveToken>()
  for (const token of tokens) {
    const known = lastTokens.get(token.serviceAccountId ?? '')
    if (token.serviceAccountId !== null && token.usedAt > (known?.usedAt ?? 0)) {
      lastTokens.set(token.serviceAccountId, token)
    }
  }
  return [...lastTokens].flatMap(([id, { address }]) => {
    const name = snapshot.principals.get(id)?.serviceAccount?.name
    const unmet = findUnmetRule(policy, { person: undefined, address }, ctx.now())
    return unmet && name !== undefined ? { type: 'service', id, name, reason: reasonOf(policy, unmet, address) } : []
  })
}

function forecastToken(
  ctx: Context,
  policy: PolicyRules,
  owners: ReadonlyMap<string, Account>,
  token: LiveToken,
): ShutOut | undefined {
  const { id, name, createdAt, address, serviceAccountId } = token
  const owner = serviceAccountId === null ? owners.get(token.createdBy) : undefined
  const subject = { person: owner && provenBy(owner), tokenCreatedAt: createdAt, address }
  const unmet = findUnmetRule(policy, subject, ctx.now())
  return unmet && { type: 'token', id, name, reason: reasonOf(policy, unmet, address, owner) }
}

/** People who have a second factor sign in with it, so a session that was opened without one shuts nobody out. */
function provenBy(account: Account): PersonProofs {
  const { emailVerified, secondFactorId } = proofsOf(account)
  return { emailVerified, hasSecondFactor: secondFactorId !== null }
}

function reasonOf({ document }: PolicyRules, unmet: UnmetRule, address = '', owner?: Account): string {
  const who = owner ? `The owner, ${owner.email},` : 'This person'
  const { maxTokenDays: days } = document
  const sentences: Record<UnmetRule, string> = {
    requireMfa: `${who} has no second factor.`,
    requireVerifiedEmail: `${who} has not confirmed their email address.`,
    allowedIps: `Last seen at ${address}, which the list does not hold.`,
    maxTokenDays: `Created more than ${days === 1 ? '1 day' : `${days} days`} ago.`,
  }
  return sentences[unmet]
}
