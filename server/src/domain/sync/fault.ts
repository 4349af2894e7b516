/** Explains a vendor's refusal to people: what happened, in the vendor's words without any secret, and what to do. */
import { Failure } from '../../failure.ts'
import { type FaultKind, isFault, type VendorFault, VendorRefusal } from '../../providers/fault.ts'
import type { Provider, Values } from '../../providers/provider.ts'
import { minuteMs, secondMs } from '../time.ts'
import { createScrubber, minSecretLength, type Scrubber } from './scrubber.ts'

const advice: Record<FaultKind, string> = {
  auth: 'The credential is no longer accepted: enter a new one in the auth step of this sync.',
  scope: 'The credential lacks permissions: grant it those that the auth step lists, or enter another one.',
  gone: 'The target does not exist or is out of reach: check it at the vendor, or choose another one.',
  invalid: 'The vendor rejects this name or value: change it, or exclude it in the mapping.',
  quota: 'A limit of the account is reached: delete something there, or raise the limit.',
  conflict: 'An entry of someone else has this name: delete it, or allow takeover in the mapping.',
  rate: 'It will be retried when the vendor allows it.',
  transient: 'It will be retried automatically.',
  protocol: 'The vendor gave an unexpected response; it will be retried automatically.',
}

/** For a person who waits for the response: nothing is retried automatically then. */
const adviceAtOnce: Record<FaultKind, string> = {
  ...advice,
  auth: 'The credential is not accepted: enter another one in the auth step.',
  rate: 'Try again in a few minutes.',
  transient: 'Try again in a moment.',
  protocol: 'The vendor gave an unexpected response: try again in a moment.',
}

/** A sync that is being removed has no wizard steps left. */
const adviceInRemoval =
  'It will be retried automatically. To keep the entries at the target, delete the sync again without remove.'

const adviceUntrusted =
  'Enter its CA certificate if the auth step asks for one; otherwise the operator must make Coffer trust it (NODE_EXTRA_CA_CERTS).'

const adviceUnreached = 'Check that Coffer can reach it, and try again.'

const maxMessageLength = 300
/** Longer messages are not meant for people, and scrubbing them would be slow: they are not quoted. */
const maxQuotableLength = 8 * 1024

/** Stored with the sync, stored with a sync that is being removed, or shown to a person who waits. */
type Telling = 'kept' | 'removal' | 'awaited'

export function explainFault(
  vendor: string,
  fault: VendorFault,
  scrubber: Scrubber,
  telling: Telling = 'kept',
): string {
  const { service = vendor } = fault.facts
  const isTheirs = fault instanceof VendorRefusal
  const what = isTheirs ? `${service} ${saidIn(fault, scrubber)}` : `${service}: ${fault.message}`
  return `${what.replace(/[.\s]*$/, '.')} ${adviceOn(fault, telling)}`
}

function saidIn({ facts: { vendorMessage = '', status } }: VendorRefusal, scrubber: Scrubber): string {
  const isQuotable = vendorMessage.length <= maxQuotableLength
  const said = isQuotable ? onOneLine(scrubber.scrub(vendorMessage)).slice(0, maxMessageLength) : ''
  return `${status === undefined ? 'refused it' : `answered ${status}`}${said && `: ${said}`}`
}

/** Some services send a list of errors with a count, line breaks and bullets. Call after scrubbing: secrets have lines. */
const onOneLine = (text: string): string =>
  text
    .replace(/^\d+ errors? occurred:\s*\*\s+/, '')
    .replace(/\s*\n\s*\*\s+/g, '; ')
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()

function adviceOn(fault: VendorFault, telling: Telling): string {
  const { kind, facts } = fault
  if (telling === 'removal' && needsPerson(fault)) return adviceInRemoval
  if (facts.isUntrusted) return adviceUntrusted
  if (facts.remedy !== undefined) return facts.remedy
  if (telling !== 'awaited') return advice[kind]
  return facts.isUnreached ? adviceUnreached : adviceAtOnce[kind]
}

/**
 * For a person who waits: an outage of the vendor is a 503 that blames no field, because no answer is wrong. `refuse`
 * makes the failure for faults that a retry does not fix.
 */
export function answerFault(
  provider: Provider,
  credential: Values,
  fault: VendorFault,
  refuse: (explanation: string) => Failure,
): Failure {
  const explanation = explainFault(provider.name, fault, createScrubber(secretTextsOf(provider, credential)), 'awaited')
  if (needsPerson(fault)) return refuse(explanation)
  const usualMs = fault.kind === 'rate' ? minuteMs : 5 * secondMs
  const retryAfterSeconds = Math.max(1, Math.ceil((fault.facts.retryAfterMs ?? usualMs) / secondMs))
  return new Failure('vendorUnavailable', explanation, { retryAfterSeconds })
}

/** Faults that a retry does not fix. */
export const needsPerson = (fault: VendorFault): boolean =>
  !isFault(fault, 'rate') && !isFault(fault, 'transient') && !isFault(fault, 'protocol')

/** The auth answers that must not be quoted. Names such as regions and roles stay readable. */
export function secretTextsOf(provider: Provider, credential: Values): string[] {
  return Object.entries(credential).flatMap(([id, value]) => {
    const field = provider.auth.find((one) => one.id === id)
    // A field that the form no longer has may have been a password.
    if (!field || field.kind === 'copy' || field.kind === 'password') return [value]
    return field.mayHoldToken ? [value, ...longPartsOf(value)] : []
  })
}

/** The parts of a URL after the host that may be tokens: the whole rest, and each part that is long enough. */
function longPartsOf(address: string): string[] {
  const url = URL.parse(address)
  if (!url) return []
  const rest = url.pathname + url.search
  return [rest, ...rest.split(/[/?&=]/)].filter(({ length }) => length >= minSecretLength)
}
