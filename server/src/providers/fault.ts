/** What goes wrong at a vendor's, sorted by what is to be done about it. */

/**
 * `auth`: the credential is not accepted. `scope`: it is, but may not do this. `gone`: the target is not there.
 * `invalid`: the vendor refuses this name or value. `quota`: a limit of the account. `conflict`: somebody else's.
 * `rate`: later. `transient`: again; whether it was done is not known. `protocol`: an answer that makes no sense.
 */
export type FaultKind = 'auth' | 'scope' | 'gone' | 'invalid' | 'quota' | 'conflict' | 'rate' | 'transient' | 'protocol'

type FaultFacts = {
  readonly status?: number
  /** The vendor's own words: they may quote a value, so they are scrubbed before anybody sees them. */
  readonly vendorMessage?: string
  readonly retryAfterMs?: number
  /** There was no connection at all: the address is wrong, not allowed, or nobody is there. */
  readonly isUnreached?: true
  /** The server showed a certificate that no trusted authority has signed. */
  readonly isUntrusted?: true
  /** Who answered, where that is another service of the vendor's than the one that is pushed to. */
  readonly service?: string
  /** Of the wizard's form, where the answer to it is at fault. */
  readonly field?: string
}

export class VendorFault extends Error {
  readonly kind: FaultKind
  readonly facts: FaultFacts

  constructor(kind: FaultKind, message: string, facts: FaultFacts = {}) {
    super(message)
    this.name = 'VendorFault'
    this.kind = kind
    this.facts = facts
  }
}

/**
 * A refusal that nobody here has explained: its message holds the status and no more, so people are shown the vendor's
 * words. A provider that knows what is wrong throws a `VendorFault` with its own sentence, which is shown instead.
 */
export class VendorRefusal extends VendorFault {}

export const isFault = (error: unknown, kind?: FaultKind): error is VendorFault =>
  error instanceof VendorFault && (kind === undefined || error.kind === kind)
