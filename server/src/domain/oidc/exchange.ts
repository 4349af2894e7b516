/**
 * Exchanges a token of an outside issuer for a JWT of ours. The response says only yes or no; the reason for a refusal
 * is in the audit trail of the workspace, and an admin can see it with `test`.
 */
import type { AccessToken } from '@coffer/contract/auth'
import type { IdPath } from '@coffer/contract/field'
import type { IdentityCheck, IdentityExchange, IdentityTest, IdentityVerdict } from '@coffer/contract/oidc'
import { jwtLifetimeSeconds } from '../../crypto/jwt.ts'
import { Failure, isFailure } from '../../failure.ts'
import type { IdentityRecord } from '../../store/oidc.ts'
import { requireWorkspace } from '../access/access.ts'
import { reachOf } from '../access/outbound-reach.ts'
import type { Context } from '../context.ts'
import { identityActor } from '../credential/credential.ts'
import { issueJwt } from '../credential/jwt.ts'
import { type ReadyIdentity, toReadyIdentity } from '../ready-token.ts'
import { minuteMs, secondMs } from '../time.ts'
import { recordAct } from '../transaction.ts'
import { requireIdentity } from './oidc.ts'
import { checkRules, describe, isExact } from './rule.ts'
import { checkAudience, checkHeader, checkTimes, type ExternalToken, formCheck, parseToken } from './token.ts'

const maxReasons = 5

export async function exchangeIdentity(ctx: Context, body: IdentityExchange): Promise<AccessToken> {
  const workspaceId = await ctx.store.workspaces.findIdForAnybody(body.workspaceId)
  if (workspaceId === undefined) throw new Failure('exchangeRefused')
  const token = parseToken(body.token)
  const judged = token ? await judge(ctx, workspaceId, token) : { reasons: [formCheck(false)] }
  if ('reasons' in judged) {
    await recordRefusal(ctx, workspaceId, token, judged.reasons)
    throw new Failure('exchangeRefused')
  }
  const identity = toReadyIdentity(judged.identity)
  await requireAdmitted(ctx, identity, judged.token)
  const { id, workspaceId: workspace, generation } = identity
  const issued = issueJwt(ctx, { sub: id, kind: 'oidc', workspace, generation })
  await recordLogin(ctx, identity, judged.token)
  return issued
}

/** The policy of the workspace may not admit the address of the request: the issued JWT would be refused there too. */
async function requireAdmitted(ctx: Context, identity: ReadyIdentity, token: ExternalToken): Promise<void> {
  const { id, workspaceId } = identity
  const actor = identityActor(identity, ctx.now() + jwtLifetimeSeconds * secondMs)
  try {
    await requireWorkspace({ ...ctx, actor }, { ws: workspaceId }, 'workspace:read')
  } catch (error) {
    if (isFailure(error, 'forbidden')) {
      const expected = 'an address that the policy of the workspace allows'
      const reason = { identity: id, check: 'address', ok: false, expected, actual: ctx.request.ip }
      await recordRefusal(ctx, workspaceId, token, [reason])
    }
    throw error
  }
}

export async function testIdentity(ctx: Context, path: IdPath, body: IdentityTest): Promise<IdentityVerdict> {
  const { identity } = await requireIdentity(ctx, path, 'oidc:read')
  const enabled = { check: 'enabled', ok: identity.enabled, expected: 'true', actual: String(identity.enabled) }
  const token = parseToken(body.token)
  const checks = token ? await checkAll(ctx, identity, token) : [formCheck(false)]
  return { ok: identity.enabled && isPassed(checks), checks: [enabled, ...checks] }
}

type Judged =
  | { readonly identity: IdentityRecord; readonly token: ExternalToken }
  | { readonly reasons: readonly (IdentityCheck & { readonly identity?: string })[] }

/** If several identities match, only one grants its rights: exact rules before patterns, then the newest identity. */
async function judge(ctx: Context, workspaceId: string, token: ExternalToken): Promise<Judged> {
  const { iss } = token.claims
  // No issuer contains NUL, and PostgreSQL refuses text that does.
  const isText = typeof iss === 'string' && !iss.includes('\0')
  const candidates = isText ? await ctx.store.oidc.listEnabled(workspaceId, iss) : []
  const [first] = candidates
  if (!first) return { reasons: [issuerCheck(iss, 'the issuer of an enabled identity', false)] }
  const failed = firstFailed(await checkGenuine(ctx, first, token))
  if (failed) return { reasons: [failed] }
  const judged: { identity: IdentityRecord; failed: IdentityCheck | undefined }[] = []
  for (const identity of candidates) {
    // Many identities and a token with long lists can take a while, so other requests get the event loop in between.
    if (judged.length > 0) await ctx.longWork.nextPortion()
    judged.push({ identity, failed: firstFailed(checkFit(identity, token)) })
  }
  const fitting = judged.flatMap(({ identity, failed }) => (failed ? [] : [identity]))
  const identity = fitting.find(isExact) ?? fitting[0]
  if (identity) return { identity, token }
  const reasons = judged.flatMap(({ identity, failed }) => (failed ? [{ identity: identity.id, ...failed }] : []))
  return { reasons: reasons.slice(0, maxReasons) }
}

async function checkAll(ctx: Context, identity: IdentityRecord, token: ExternalToken): Promise<IdentityCheck[]> {
  const { iss } = token.claims
  const checks = [formCheck(true), issuerCheck(iss, identity.issuer, iss === identity.issuer)]
  // Only the trusted issuer's keys are fetched: otherwise a token could make this server call any address.
  if (iss === identity.issuer) checks.push(...(await checkGenuine(ctx, identity, token)))
  return [...checks, ...checkFit(identity, token)]
}

/** The checks that make the claims trustworthy: header, signature of the issuer, and validity period. */
async function checkGenuine(
  ctx: Context,
  { issuer, workspaceId, updatedAt }: IdentityRecord,
  token: ExternalToken,
): Promise<IdentityCheck[]> {
  const header = checkHeader(token)
  const reached = { url: issuer, reach: await reachOf(ctx, workspaceId), changedAt: updatedAt }
  const problem = isPassed(header) ? await ctx.issuers.findProblem(reached, token.text) : 'not checked: see above'
  const signature = {
    check: 'signature',
    ok: problem === undefined,
    expected: 'by a key of the issuer',
    actual: problem ?? 'by a key of the issuer',
  }
  return [...header, signature, ...checkTimes(token, ctx.now())]
}

const checkFit = (identity: IdentityRecord, token: ExternalToken) => [
  ...checkAudience(token, identity.audience),
  ...checkRules(identity, token.claims),
]

const issuerCheck = (iss: unknown, expected: string, ok: boolean) => ({
  check: 'issuer',
  ok,
  expected,
  actual: describe(iss),
})

const isPassed = (checks: readonly IdentityCheck[]) => checks.every(({ ok }) => ok)
const firstFailed = (checks: readonly IdentityCheck[]) => checks.find(({ ok }) => !ok)

const entity = ({ id, name }: { id: string; name: string }) => ({ type: 'oidc', id, name })

async function recordLogin(ctx: Context, identity: ReadyIdentity, { claims }: ExternalToken): Promise<void> {
  const expiresAt = ctx.now() + jwtLifetimeSeconds * secondMs
  const { workspaceId } = identity
  const after = { issuer: identity.issuer, subject: describe(claims.sub), tokenId: describe(claims.jti) }
  const actor = identityActor(identity, expiresAt)
  await recordAct({ ...ctx, actor }, { chain: workspaceId, action: 'LOGIN', entity: entity(identity), after })
  ctx.usage.noteIdentity(identity.id, workspaceId, ctx.now())
}

/** Limit of recorded refusals per workspace. */
export const exchangeRefusals = { max: 20, windowMs: minuteMs }

/** A workspace without identities records nothing: anonymous requests must not write to its trail. */
async function recordRefusal(
  ctx: Context,
  workspaceId: string,
  token: ExternalToken | undefined,
  reasons: readonly (IdentityCheck & { readonly identity?: string })[],
): Promise<void> {
  if ((await ctx.store.oidc.count(workspaceId)) === 0) return
  const admitted = ctx.refusals.admit(workspaceId)
  if (!admitted) return
  const after = {
    issuer: describe(token?.claims.iss),
    subject: describe(token?.claims.sub),
    reasons: reasons.map(({ ok: _ok, ...reason }) => reason),
    ...(admitted.unrecorded > 0 && { unrecorded: admitted.unrecorded }),
  }
  const who = { type: 'oidc', id: '', name: '' }
  await recordAct(ctx, { chain: workspaceId, action: 'LOGIN', entity: who, outcome: 'failure', after })
}
