/** Audit entries for requests without a credential, limited per network and overall; the rest are only counted. */
import { clientNetwork } from '../../address-range.ts'
import { backOffMs } from '../account/attempt-limit.ts'
import { anonymous } from '../actor.ts'
import { type Context, noRequest, type Services } from '../context.ts'
import { newRun } from '../run.ts'
import { recordAct } from '../transaction.ts'
import { type AuditEvent, systemChain } from './event.ts'
import { createRecordLimit } from './record-limit.ts'

const maxPerNetwork = 5
const maxOverall = 50

type Act = Omit<AuditEvent, 'chain'>

/** A login with an unknown email address, and a request for a device code. */
const acts = {
  login: { action: 'LOGIN', entity: { type: 'user', id: '', name: '' }, outcome: 'failure' },
  device: { action: 'CREATE', entity: { type: 'device-login', id: '', name: '' } },
} as const satisfies Record<string, Act>

type Kind = keyof typeof acts
const kinds: readonly Kind[] = ['login', 'device']

export type StrangerRecords = {
  /** The entry to record for this act, or undefined if it is only counted. */
  admit(ctx: Context, kind: Kind, act?: Partial<Act>): AuditEvent | undefined
  /** For windows that are over: one entry per kind, with the number of acts that were not recorded. */
  takeUnrecorded(): AuditEvent[]
}

export function createStrangerRecords(now: () => number): StrangerRecords {
  const byNetwork = createRecordLimit(now, { max: maxPerNetwork, windowMs: backOffMs })
  const overall = createRecordLimit(now, { max: maxOverall, windowMs: backOffMs })
  const entryOf = (kind: Kind, unrecorded: number, act: Partial<Act> = {}): AuditEvent => {
    return { chain: systemChain, ...acts[kind], ...act, ...(unrecorded > 0 && { after: { unrecorded } }) }
  }
  return {
    admit(ctx, kind, act) {
      if (!byNetwork.admit(`${kind} ${clientNetwork(ctx.request.ip)}`)) return void overall.skip(kind)
      const admitted = overall.admit(kind)
      return admitted && entryOf(kind, admitted.unrecorded, act)
    },
    takeUnrecorded: () =>
      kinds.flatMap((kind) => {
        const unrecorded = overall.takeUnrecorded(kind)
        return unrecorded > 0 ? [entryOf(kind, unrecorded)] : []
      }),
  }
}

/** Records the number of skipped acts once their window is over. */
export async function recordUnrecorded(services: Services): Promise<void> {
  const ctx = { ...services, actor: anonymous, request: { id: 'cleanup', ...noRequest }, run: newRun() }
  for (const event of services.strangers.takeUnrecorded()) await recordAct(ctx, event)
}
