/**
 * Device login (RFC 8628) for clients without a browser. The device polls with a long code and shows a short one, which
 * a person enters and approves in a browser session. Both codes are stored as keyed hashes only.
 */
import { randomBytes } from 'node:crypto'
import type { AccessToken } from '@coffer/contract/auth'
import type { DeviceAnswer, DeviceCode, DevicePoll, PollRefusal, WaitingDevice } from '@coffer/contract/device'
import { clientNetwork } from '../../address-range.ts'
import { newId } from '../../crypto/id.ts'
import { newTypedCode, normaliseTypedCode } from '../../crypto/typed-code.ts'
import { Failure } from '../../failure.ts'
import type { DeviceLogin } from '../../store/account/device.ts'
import { requireBrowserSession } from '../access/access.ts'
import { systemChain } from '../audit/event.ts'
import { record } from '../audit/record.ts'
import type { Context, WriteContext } from '../context.ts'
import { iso, secondMs } from '../time.ts'
import { inQuietTransaction, inTransaction, recordAct } from '../transaction.ts'
import { countAttempt, forgiveAttempt } from './attempt-limit.ts'
import { asUser, inPersonTransaction, personEntity } from './person.ts'
import { openSession } from './session.ts'

const lifeSeconds = 300
const intervalSeconds = 5
/** Timers and networks are inexact, so a poll up to one second early is accepted. */
const leewaySeconds = 1
/** Everyone in an office shares one network and may sign in at the same time. */
const maxWaitingPerNetwork = 50
const maxWaiting = 1_000
const deviceCodeBytes = 32
const userCodeGroups = 2

const entity = ({ id, clientId }: DeviceLogin) => ({ type: 'device-login', id, name: clientId })

export async function createDeviceCode(ctx: Context, clientId: string): Promise<DeviceCode> {
  const deviceCode = randomBytes(deviceCodeBytes).toString('base64url')
  const at = ctx.now()
  const login: DeviceLogin = {
    id: newId(),
    clientId,
    ip: ctx.request.ip,
    userAgent: ctx.request.userAgent,
    state: 'pending',
    userId: null,
    sessionId: null,
    createdAt: at,
    expiresAt: at + lifeSeconds * secondMs,
  }
  const event = ctx.strangers.admit(ctx.request.ip, 'device', { entity: entity(login) })
  const userCode = await inTransaction(ctx, systemChain, async (ctx) => {
    await makeRoom(ctx)
    let code = newTypedCode(userCodeGroups)
    while (!(await ctx.store.devices.insert(login, { device: deviceCode, user: code }))) {
      code = newTypedCode(userCodeGroups)
    }
    if (event) record(ctx, event)
    return code
  })
  const verificationUri = `${ctx.config.publicUrl}/device`
  return {
    deviceCode,
    userCode,
    verificationUri,
    // The fragment after # is never sent to a server, so no proxy or log sees the code.
    verificationUriComplete: `${verificationUri}#code=${userCode}`,
    expiresIn: lifeSeconds,
    interval: intervalSeconds,
  }
}

/**
 * Limits pending codes: a network with too many is refused; at the overall limit, the largest network loses its oldest.
 */
async function makeRoom(ctx: WriteContext): Promise<void> {
  const waiting = await ctx.store.devices.listWaiting(ctx.now())
  const byNetwork = Map.groupBy(waiting, ({ ip }) => clientNetwork(ip))
  const own = byNetwork.get(clientNetwork(ctx.request.ip)) ?? []
  const [first] = own
  if (first && own.length >= maxWaitingPerNetwork) {
    const retryAfterSeconds = Math.max(1, Math.ceil((first.expiresAt - ctx.now()) / secondMs))
    throw new Failure('rateLimited', 'Too many device logins from this network are pending: try again later.', {
      retryAfterSeconds,
    })
  }
  if (waiting.length < maxWaiting) return
  const [oldest] = [...byNetwork.values()].reduce((most, some) => (some.length > most.length ? some : most))
  if (oldest) ctx.store.devices.removeWaiting(oldest.id)
}

export async function pollDevice(ctx: Context, body: DevicePoll): Promise<AccessToken> {
  const login = await ctx.store.devices.findByDeviceCode(body.deviceCode)
  // The same error for every dead code: unknown, of another client, expired, or already collected.
  if (!login || login.clientId !== body.clientId || login.expiresAt <= ctx.now()) throw notYet('expired_token')
  if (login.state === 'denied') throw notYet('access_denied')
  if (login.state === 'approved' && login.userId !== null) return collect(ctx, login, login.userId)
  const at = ctx.now()
  const isInTime = await inQuietTransaction(ctx, `device:${login.id}`, (store) =>
    store.devices.poll(login.id, at, at - (intervalSeconds - leewaySeconds) * secondMs),
  )
  throw notYet(isInTime ? 'authorization_pending' : 'slow_down')
}

const notYet = (word: PollRefusal['error']) => new Failure('devicePoll', word)

async function collect(ctx: Context, login: DeviceLogin, userId: string): Promise<AccessToken> {
  const account = await ctx.store.accounts.find(userId)
  if (!account) throw notYet('expired_token')
  const opened = await inPersonTransaction(asUser(ctx, account), userId, async (ctx, recordEvent) => {
    if (!(await ctx.store.devices.collect(login, ctx.now()))) return undefined
    await recordEvent({
      action: 'LOGIN',
      entity: personEntity(account),
      after: { type: 'cli', clientId: login.clientId },
    })
    // The person did not sign in on the device: its session is worth as much as the one that approved it.
    const factorId = login.sessionId === null ? null : await ctx.store.sessionFactors.find(login.sessionId, userId)
    return openSession(ctx, userId, 'cli', factorId)
  })
  if (!opened) throw notYet('expired_token')
  return { accessToken: opened.value, expiresIn: opened.expiresIn, tokenType: 'Bearer' }
}

export async function readDevice(ctx: Context, userCode: string): Promise<WaitingDevice> {
  const { login } = await requireWaitingDevice(ctx, userCode)
  await recordAct(ctx, { chain: systemChain, action: 'VIEW', entity: entity(login) })
  const { clientId, ip, userAgent } = login
  return { clientId, ip, userAgent, createdAt: iso(login.createdAt), expiresAt: iso(login.expiresAt) }
}

export async function answerDevice(ctx: Context, body: DeviceAnswer): Promise<void> {
  const { login, code, userId, sessionId } = await requireWaitingDevice(ctx, body.userCode)
  await inPersonTransaction(ctx, userId, async (ctx, recordEvent) => {
    const state = body.approve ? 'approved' : 'denied'
    // Only an approval is tied to the session, because the right that it grants must end with the session.
    const answer = { state, userId, sessionId: body.approve ? sessionId : null } as const
    if (!(await ctx.store.devices.answer(code, answer))) throw unknownCode()
    await recordEvent({ action: 'UPDATE', entity: entity(login), after: { state, ip: login.ip } })
  })
}

/** The code is short enough to type, so the number of guesses is limited. */
async function requireWaitingDevice(
  ctx: Context,
  userCode: string,
): Promise<{ login: DeviceLogin; code: string; userId: string; sessionId: string }> {
  const { userId, sessionId } = requireBrowserSession(ctx)
  const subject = `device:${userId}`
  await countAttempt(ctx, subject, 'Too many wrong codes: wait before you try again.')
  const code = normaliseTypedCode(userCode)
  const login = await ctx.store.devices.findByUserCode(code)
  if (login?.state !== 'pending' || login.expiresAt <= ctx.now()) throw unknownCode()
  await forgiveAttempt(ctx, subject)
  return { login, code, userId, sessionId }
}

const unknownCode = () => new Failure('notFound', 'This code is unknown or has expired: get a new one on the device.')
