/** Audit entries for requests without a credential, limited per network and overall; the rest are only counted. */
import { clientNetwork } from '../../address-range.ts'
import { minuteMs } from '../time.ts'
import { type AuditEvent, systemChain } from './event.ts'
import { createRecordLimit } from './record-limit.ts'

const windowMs = 10 * minuteMs
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
  admit(ip: string, kind: Kind, act?: Partial<Act>): AuditEvent | undefined
  /** For windows that are over: one entry per kind, with the number of acts that were not recorded. */
  takeUnrecorded(): AuditEvent[]
}

export function createStrangerRecords(now: () => number): StrangerRecords {
  const byNetwork = createRecordLimit(now, { max: maxPerNetwork, windowMs })
  const overall = createRecordLimit(now, { max: maxOverall, windowMs })
  const entryOf = (kind: Kind, unrecorded: number, act: Partial<Act> = {}): AuditEvent => {
    return { chain: systemChain, ...acts[kind], ...act, ...(unrecorded > 0 && { after: { unrecorded } }) }
  }
  return {
    admit(ip, kind, act) {
      if (!byNetwork.admit(`${kind} ${clientNetwork(ip)}`)) return void overall.skip(kind)
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
