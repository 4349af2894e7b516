/** What a vendor's refusal means to people: what happened, in the vendor's words without any value, and what to do. */
import { type FaultKind, isFault, type VendorFault } from '../providers/fault.ts'
import type { Values } from '../providers/provider.ts'

const advice: Record<FaultKind, string> = {
  auth: 'The credential is not accepted any more: open the step auth of this sync and enter a new one.',
  scope: 'The credential may not do this: give it the rights that the step auth lists, or enter another one.',
  gone: 'The target is not there, or cannot be reached from here: look for it at the vendor, or choose another one.',
  invalid: 'The vendor refuses this name or value: change it, or leave it out in the mapping.',
  quota: 'A limit of the account is reached: remove something there, or raise it.',
  conflict: 'Somebody else holds this there: remove it, or let the sync take it over in the mapping.',
  rate: 'It is tried again when the vendor allows it.',
  transient: 'It is tried again by itself.',
  protocol: 'The vendor answered in an unknown way; it is tried again by itself.',
}

const maxMessageLength = 300

/** `secrets`: everything that must not be quoted, however the vendor spells it. */
export function explainFault(vendor: string, fault: VendorFault, secrets: Iterable<string>): string {
  const { vendorMessage, status } = fault.facts
  const said = vendorMessage === undefined ? '' : scrub(vendorMessage, secrets).slice(0, maxMessageLength)
  const what =
    status === undefined ? `${vendor}: ${fault.message}` : `${vendor} answered ${status}${said && `: ${said}`}`
  return `${what.replace(/[.\s]*$/, '.')} ${advice[fault.kind]}`
}

/** Faults that waiting does not mend. */
export const needsPerson = (fault: VendorFault): boolean =>
  !isFault(fault, 'rate') && !isFault(fault, 'transient') && !isFault(fault, 'protocol')

export const secretsOf = (credential: Values, values: Iterable<string>): string[] => [
  ...Object.values(credential),
  ...values,
]

const hidden = '[hidden]'

/**
 * Takes every secret out of a text, as it is and as vendors quote it: escaped, encoded, or cut short. Text without any
 * of them stays readable.
 */
export function scrub(text: string, secrets: Iterable<string>): string {
  const spellings = new Set<string>()
  for (const secret of secrets) for (const spelling of spellingsOf(secret)) spellings.add(spelling)
  let result = text
  // Longest first: a secret may hold another one.
  for (const spelling of [...spellings].sort((a, b) => b.length - a.length)) {
    if (spelling.length >= 4) result = result.replaceAll(spelling, hidden)
    else result = result.replace(new RegExp(`(?<![A-Za-z0-9])${RegExp.escape(spelling)}(?![A-Za-z0-9])`, 'g'), hidden)
  }
  return result
}

const headLength = 12

function spellingsOf(secret: string): string[] {
  if (secret.trim() === '') return []
  const bytes = Buffer.from(secret)
  const lines = secret.split(/\r?\n/).filter((line) => line.trim().length >= 4)
  const encoded = [
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    bytes.toString('base64'),
    bytes.toString('base64url'),
    bytes.toString('hex'),
  ]
  // A vendor that cuts what it quotes still shows its beginning.
  const heads = secret.length > headLength + 4 ? [secret.slice(0, headLength)] : []
  return [secret, ...(lines.length > 1 ? lines : []), ...encoded, ...heads]
}
