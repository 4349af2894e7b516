/**
 * Contract of a sync provider: forms, limits and capabilities as data, and a few calls. A provider is one file with one
 * exported `Provider`, and one line in registry.ts. It sees only the vendor's HTTP, its own settings and its ops; no
 * other code asks which provider it is.
 */
import type { VendorHttp } from './vendor-http.ts'

export type Values = Readonly<Record<string, string>>
export type Option = { readonly label: string; readonly value: string }

type FieldBase = {
  /** In camelCase. Error messages about the field start with it. */
  readonly id: string
  readonly label: string
  readonly description?: string
  /** Earlier fields of the form that must be answered before this one is shown, because its options depend on them. */
  readonly after?: readonly string[]
  /** Whether to ask this field, given the earlier answers of its form. */
  readonly when?: (values: Values) => boolean
}

type AnsweredField = FieldBase & {
  readonly placeholder?: string
  readonly defaultValue?: string
  /** A function decides from the other answers of the form. */
  readonly isOptional?: true | ((values: Values) => boolean)
  /** The address of the service: blamed if nothing can be reached there. */
  readonly isAddress?: true
  /** The CA certificate of the service: blamed if the server's certificate cannot be verified. */
  readonly isAuthority?: true
  /** Never blamed for a refusal by the vendor. */
  readonly isFree?: true
  /** Stored in each entry at the target: if the answer changes, all entries are written again. */
  readonly isStored?: true
  /** Not a password, but it may contain a token, so no message may quote it. */
  readonly mayHoldToken?: true
  /** Describes what is wrong with an answer, to be read after the field's id and a colon: "is not a region." */
  readonly check?: (value: string, values: Values) => string | undefined
}

/** One line of text; a `password` is never shown again. */
export type InputField = AnsweredField & { readonly kind: 'text' | 'password' }

/**
 * A list to choose from. If the vendor provides it, `undefined` means that the credential may not list; the person
 * types a value instead.
 */
export type SelectField = AnsweredField & {
  readonly kind: 'select'
  /** Accepts a label instead of its value; error messages list labels. */
  readonly byLabel?: true
  readonly options: readonly Option[] | ((connection: Connection) => Promise<readonly Option[] | undefined>)
}

/** Text for the person to copy, such as a policy or a command. */
export type CopyField = FieldBase & {
  readonly kind: 'copy'
  readonly language: 'text' | 'json' | 'bash'
  readonly text: (facts: CopyFacts) => string
}

export type CopyFacts = {
  readonly syncId: string
  /** The answers of the same form. */
  readonly values: Values
  /** The answers of the other steps, as far as they were given. */
  readonly target: Values
  readonly mapping: Values
  /** Whether the sync takes over existing entries, which a policy must then allow. */
  readonly takesOver: boolean
}

export type Field = InputField | SelectField | CopyField

/** Everything that one run or wizard step may use. `target` and `options` are empty until they are chosen. */
export type Connection = {
  readonly http: VendorHttp
  readonly credential: Values
  readonly target: Values
  readonly options: Values
  readonly syncId: string
  readonly now: () => number
}

export type RemoteItem = {
  /** As stored by the vendor. */
  readonly name: string
  /** The vendor's id, if a later call needs it. */
  readonly id?: string
  /** Changes whenever the value changes: a version, a digest or a time. */
  readonly mark?: string
  /** Set only if the listing includes it; `list` makes no extra call for it. */
  readonly value?: string
  /** Whether the item carries the owner mark of this sync; undefined if the vendor has no place for one. */
  readonly isOurs?: boolean
}

export type Op =
  | { readonly kind: 'create'; readonly name: string; readonly value: string; readonly operationId: string }
  | {
      readonly kind: 'update'
      readonly name: string
      readonly value: string
      readonly id?: string
      readonly operationId: string
      /** The person lets this sync overwrite the entry, whoever owns it. */
      readonly takesOver?: true
      /**
       * Only the read of the target says that the entry is ours: no run of this sync is known to have written it. A
       * provider whose list may be wrong about owner marks must confirm it.
       */
      readonly isUnconfirmed?: true
      readonly isOurValue?: IsOurValue
    }
  | {
      readonly kind: 'delete'
      readonly name: string
      readonly id?: string
      readonly mark?: string
      readonly isOurValue?: IsOurValue
    }

/** Whether a value at the target is the one that this sync last wrote there. */
type IsOurValue = (value: string) => boolean

/** Result of one op. `id` and `mark` are stored for the next run. */
export type OpResult =
  | {
      readonly name: string
      readonly id?: string
      readonly mark?: string
      readonly note?: string
      /** Not deleted, because it belongs to somebody else too: it leaves the ledger. */
      readonly isKept?: true
    }
  | { readonly name: string; readonly fault: Error }

/** A problem with a name, phrased to be read after the name. */
export type Problem = { readonly name: string; readonly problem: string }

/** An entry of the ledger. */
export type KnownItem = { readonly name: string; readonly id?: string }

/** The target during one run: logs in at most once, fetches keys at most once. */
export type Remote = {
  /** Lists all items, or at least those with one of the wanted names. */
  list(wanted: ReadonlySet<string>): AsyncIterable<RemoteItem>
  /**
   * Looks up these entries before an update and returns those that exist, in the form of `list`. One call for one
   * entry. Undefined if a list takes fewer calls, and omitted if `list` is always one call.
   */
  find?(entries: readonly KnownItem[]): AsyncIterable<RemoteItem> | undefined
  /** Call after `list`. Problems that the target would have if this sync had exactly these names there. */
  findProblems?(names: ReadonlySet<string>): readonly Problem[]
  /**
   * Takes at most `capabilities.bulk` ops with distinct names, and mixes deletes with writes only if
   * `capabilities.mixes`. Idempotent: an op that was already done succeeds, even deleting a missing entry. An op
   * without a result has an unknown outcome; a thrown error applies to all ops without a result.
   */
  apply(ops: readonly Op[]): AsyncIterable<OpResult>
  /** Called after the last op of a run that changed something. */
  finish?(): Promise<void>
}

/**
 * The check that keeps an update from overwriting an entry that somebody else has put in place of ours. The first three
 * read the target before the update. `mark`: the entry carries our owner mark. `version`: its version, digest or value
 * is the one that we left. `id`: the vendor's id is the one that we know. `precondition`: the vendor itself refuses the
 * update, without a read. `none`: the vendor shows nothing to compare.
 */
export type Guard = 'mark' | 'version' | 'id' | 'precondition' | 'none'

type Capabilities = {
  /** The most that `list` tells about an item; `nothing` if there is no list at all. */
  readonly read: 'value' | 'mark' | 'names' | 'nothing'
  /** Changes younger than this may be missing in `list`, but not in `find` for one entry. */
  readonly listLagMs?: number
  /** Maximum number of entries that one call of `find` looks up; one by default. */
  readonly findsPerCall?: number
  /** Maximum number of ops per call to the vendor. */
  readonly bulk: number
  /** The vendor's bulk call accepts deletes together with writes. */
  readonly mixes: boolean
  /** Set if `list` reports our owner mark: the vendor's name for its place, for the docs. */
  readonly ownerMark?: string
  /** An update puts our mark on the entry as well, so the mark does not prove that this sync made it. */
  readonly marksUpdates?: true
  readonly guard: Guard | ((target: Values) => Guard)
  /** Each push deploys or restarts something, so changes are collected for longer. */
  readonly deploysOnPush?: true
  readonly defaultMode: 'per-key' | 'json'
}

export type Limits = {
  /** Pattern of a name after `normaliseName`. */
  readonly name: RegExp
  readonly nameHint: string
  readonly nameMax?: number
  readonly valueMaxBytes: number
  readonly allowsEmpty: boolean
  /** Limit for all values of one target together. */
  readonly totalMaxBytes?: number
  readonly maxItems?: number | ((target: Values) => number)
  /** The vendor treats names that differ only in case as equal. */
  readonly foldsCase?: true
  /** A problem with a value that the vendor would misread, to be read after the key's name: "holds {{, which …". */
  readonly refuseValue?: (value: string, options: Values) => string | undefined
  /** Rate limit of calls per credential; `concurrency` is the number of runs that may use one credential at a time. */
  readonly rate: { readonly perSecond: number; readonly concurrency: number }
}

export type Provider = {
  readonly slug: string
  readonly name: string
  readonly website: string
  /** The vendor's documentation of the API in use. */
  readonly docs: string
  /** Drawn as the logo: up to three letters on a colour. */
  readonly glyph: { readonly text: string; readonly colour: string }
  /** Sentences for the docs and the review: what a push does, when it takes effect, what it cannot do. */
  readonly notes: readonly string[]
  readonly capabilities: Capabilities
  readonly limits: Limits
  readonly auth: readonly Field[]
  /** Makes a real call with the credential and returns the name of its account. */
  verify(connection: Connection): Promise<string>
  readonly target: readonly Field[]
  /** The provider's own choices in the mapping step. */
  readonly options: readonly Field[]
  /** `fingerprint` is equal for two syncs that write to the same target. */
  describeTarget(target: Values, credential: Values): { readonly label: string; readonly fingerprint: string }
  normaliseName(name: string): string
  /**
   * Only for vendors at which an edit removes our mark from an entry: whether this sync may overwrite the edit. At
   * other vendors, a ledger entry without our mark was replaced and belongs to somebody else.
   */
  takesBack?(options: Values): boolean
  connect(connection: Connection): Remote
}

export const guardOf = ({ capabilities: { guard } }: Provider, target: Values): Guard =>
  typeof guard === 'function' ? guard(target) : guard

/** Planned: shown in the list, but not available yet. */
export type AnnouncedProvider = Pick<Provider, 'slug' | 'name' | 'website' | 'docs' | 'glyph'>

/** Our owner mark, in the two forms that vendors can store. */
export const ownerTags = (syncId: string) => ({ 'managed-by': 'coffer', 'coffer-sync': syncId })
export const ownerText = (syncId: string) => `managed-by:coffer sync=${syncId}`
