/** Vendor errors, classified by the reaction that they need. */

/**
 * `auth`: the credential is rejected. `scope`: the credential lacks a right. `gone`: the target does not exist.
 * `invalid`: the vendor rejects this name or value. `quota`: a limit of the account. `conflict`: the entry belongs to
 * somebody else. `rate`: retry later. `transient`: retry; the outcome is unknown. `protocol`: the response makes no
 * sense.
 */
export type FaultKind = 'auth' | 'scope' | 'gone' | 'invalid' | 'quota' | 'conflict' | 'rate' | 'transient' | 'protocol'

type FaultFacts = {
  readonly status?: number
  /** The vendor's message. It may quote a value, so it is scrubbed before anyone sees it. */
  readonly vendorMessage?: string
  readonly retryAfterMs?: number
  /** No connection was made: the address is wrong, not allowed or not listening. */
  readonly isUnreached?: true
  /** The server's certificate is not signed by a trusted authority. */
  readonly isUntrusted?: true
  /** The vendor's service that answered, if it is not the push target itself. */
  readonly service?: string
  /** What to do about it, if the kind of the fault does not tell. */
  readonly remedy?: string
  /** The field of the wizard's form whose answer caused the fault. */
  readonly field?: string
}

export class VendorFault extends Error {
  readonly kind: FaultKind
  readonly facts: FaultFacts
  /** True once it was retried as often as makes sense, so that outer layers do not retry it again. */
  isGivenUp = false

  constructor(kind: FaultKind, message: string, facts: FaultFacts = {}) {
    super(message)
    this.name = 'VendorFault'
    this.kind = kind
    this.facts = facts
  }
}

/**
 * A refusal without an explanation of ours: its message holds only the status, so people see the vendor's message. A
 * provider that knows the cause throws a `VendorFault` with its own sentence, which is shown instead.
 */
export class VendorRefusal extends VendorFault {}

export const isFault = (error: unknown, kind?: FaultKind): error is VendorFault =>
  error instanceof VendorFault && (kind === undefined || error.kind === kind)
