/**
 * What a sync target is to the rest of the house: forms, limits and capabilities as data, and a few calls. A provider is
 * one file that exports one `Provider`, and one line in registry.ts. It sees the vendor's HTTP, its own settings and its
 * ops, nothing else; no code anywhere else asks which provider it is.
 */
import type { VendorHttp } from './vendor-http.ts'

export type Values = Readonly<Record<string, string>>
export type Option = { readonly label: string; readonly value: string }

type FieldBase = {
  /** In camelCase; an error about it starts with it. */
  readonly id: string
  readonly label: string
  readonly description?: string
  /** It is shown once these earlier fields of its form are answered: what it offers depends on them. */
  readonly after?: readonly string[]
  /** It is asked only where this holds of the earlier answers of its form. */
  readonly when?: (values: Values) => boolean
}

type AnsweredField = FieldBase & {
  readonly placeholder?: string
  readonly defaultValue?: string
  /** Or where it is, given the other answers of its form. */
  readonly isOptional?: true | ((values: Values) => boolean)
  /** Says where the service is: where nobody is there, it is this answer that is wrong. */
  readonly isAddress?: true
  /** Holds the certificate of the service's authority: this answer is wrong where the certificate cannot be verified. */
  readonly isAuthority?: true
  /** A refusal of the vendor's is about other answers than this one. */
  readonly isFree?: true
  /** Part of what each entry at the target is: with another answer, all of them are written anew. */
  readonly isStored?: true
  /** No password, and yet somebody may have put a token into it: nobody's words may quote it. */
  readonly mayHoldToken?: true
  /** What is wrong with an answer, to be read after the field's id and a colon: "is not a region." */
  readonly check?: (value: string, values: Values) => string | undefined
}

/** One line of text; `password` is never shown again. */
export type InputField = AnsweredField & { readonly kind: 'text' | 'password' }

/**
 * A list to choose from. Where it is asked of the vendor, `undefined` means that the credential may not list it: the
 * person types it instead.
 */
export type SelectField = AnsweredField & {
  readonly kind: 'select'
  /** A label may be answered in place of its value, and errors list labels. */
  readonly byLabel?: true
  readonly options: readonly Option[] | ((connection: Connection) => Promise<readonly Option[] | undefined>)
}

/** Something to take along: a policy, a command. */
export type CopyField = FieldBase & {
  readonly kind: 'copy'
  readonly language: 'text' | 'json' | 'bash'
  readonly text: (facts: CopyFacts) => string
}

type CopyFacts = {
  readonly syncId: string
  /** The answers of its form. */
  readonly values: Values
  /** Whether the sync takes over what is there already: a policy then allows that as well. */
  readonly takesOver: boolean
}

export type Field = InputField | SelectField | CopyField

/** Everything that one run, or one step of the wizard, may use. `target` and `options` are empty before they are chosen. */
export type Connection = {
  readonly http: VendorHttp
  readonly credential: Values
  readonly target: Values
  readonly options: Values
  readonly syncId: string
  readonly now: () => number
}

export type RemoteItem = {
  /** As the vendor stores it. */
  readonly name: string
  /** The vendor's own id, where a later call needs it. */
  readonly id?: string
  /** Changes when somebody changes the value: a version, a digest, a time. */
  readonly mark?: string
  /** Only where the listing shows it anyway; `list` makes no extra call for it. */
  readonly value?: string
  /** Whether it bears the mark of this very sync; undefined where the vendor has no place for one. */
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
      /** The person lets this sync overwrite it, whoever owns it now. */
      readonly takesOver?: true
      readonly isOurValue?: IsOurValue
    }
  | {
      readonly kind: 'delete'
      readonly name: string
      readonly id?: string
      readonly mark?: string
      readonly isOurValue?: IsOurValue
    }

/** Whether a value found at the target is the one that this sync wrote there last. */
type IsOurValue = (value: string) => boolean

/** What became of one op. `id` and `mark` are remembered for the next time. */
export type OpResult =
  | { readonly name: string; readonly id?: string; readonly mark?: string; readonly note?: string }
  | { readonly name: string; readonly fault: Error }

/** A name, and what is wrong with it, to be read after the name. */
export type Problem = { readonly name: string; readonly problem: string }

/** An entry that the ledger holds. */
export type KnownItem = { readonly name: string; readonly id?: string }

/** The far side during one run: logged in at most once, keys fetched at most once. */
export type Remote = {
  /** All that is there, or at least whatever bears one of the wanted names. */
  list(wanted: ReadonlySet<string>): AsyncIterable<RemoteItem>
  /**
   * The look before an update: those of these entries that are there, told like `list` tells them. For one entry it is one
   * call. Left out where `list` is one call, however much is there.
   */
  find?(entries: readonly KnownItem[]): AsyncIterable<RemoteItem>
  /** After `list`: what the target would refuse if these names were all that this sync has there. */
  findProblems?(names: ReadonlySet<string>): readonly Problem[]
  /**
   * At most `capabilities.bulk` ops, no name twice; creates and updates never together with deletes unless
   * `capabilities.mixes`. Safe to repeat: an op that was done already ends as done (deleting what is gone, too). An op
   * without a result counts as not known; an error thrown counts for all ops without a result.
   */
  apply(ops: readonly Op[]): AsyncIterable<OpResult>
  /** After the last op of a run that changed something. */
  finish?(): Promise<void>
}

/**
 * What an update is conditional on, so that it does not overwrite an entry that somebody else has put in the place of
 * ours. The first three look at the target before the update:
 * `mark`: the entry bears our mark. `version`: its version, digest or value is the one that we left. `id`: the vendor's
 * id is the one that we know. `precondition`: the vendor itself refuses the update; there is no look.
 * `none`: the vendor shows nothing to compare.
 */
export type Guard = 'mark' | 'version' | 'id' | 'precondition' | 'none'

type Capabilities = {
  /** What `list` tells of an item beyond its name; `nothing` where there is no list at all. */
  readonly read: 'value' | 'mark' | 'names' | 'nothing'
  /** How many ops one call of the vendor's takes. */
  readonly bulk: number
  /** The vendor's bulk call takes deletes beside the rest. */
  readonly mixes: boolean
  /** `list` tells whether an item bears our mark; how the vendor calls the place, for the docs. */
  readonly ownerMark?: string
  /** An update puts our mark on the entry as well, so the mark does not prove that this sync made it. */
  readonly marksUpdates?: true
  readonly guard: Guard | ((target: Values) => Guard)
  /** Each push deploys or restarts something: changes are gathered for longer. */
  readonly deploysOnPush?: true
  readonly defaultMode: 'per-key' | 'json'
}

export type Limits = {
  /** Of a name after `normaliseName`. */
  readonly name: RegExp
  readonly nameHint: string
  readonly nameMax?: number
  readonly valueMaxBytes: number
  readonly allowsEmpty: boolean
  /** Of all values of one target together. */
  readonly totalMaxBytes?: number
  readonly maxItems?: number | ((target: Values) => number)
  /** Names that differ only by case are the same to the vendor. */
  readonly foldsCase?: true
  /** What the vendor would misread in a value, to be read after the key's name: "holds {{, which …". */
  readonly refuseValue?: (value: string, options: Values) => string | undefined
  /** Of calls with one credential; `concurrency` is how many runs may use one credential at a time. */
  readonly rate: { readonly perSecond: number; readonly concurrency: number }
}

export type Provider = {
  readonly slug: string
  readonly name: string
  readonly website: string
  /** The vendor's page on the API that is used. */
  readonly docs: string
  /** Drawn into the logo: up to three letters on a colour. */
  readonly glyph: { readonly text: string; readonly colour: string }
  /** Sentences for the docs and the review: what a push does there, when it takes effect, what it cannot do. */
  readonly notes: readonly string[]
  readonly capabilities: Capabilities
  readonly limits: Limits
  readonly auth: readonly Field[]
  /** A real call with the credential; names the account that it belongs to. */
  verify(connection: Connection): Promise<string>
  readonly target: readonly Field[]
  /** Choices of this provider in the mapping step. */
  readonly options: readonly Field[]
  /** `fingerprint`: equal for two syncs that write to the same place. */
  describeTarget(target: Values, credential: Values): { readonly label: string; readonly fingerprint: string }
  normaliseName(name: string): string
  /**
   * Only where an edit at the vendor's takes our mark off an entry: whether this sync may then overwrite the edit. At other
   * vendors an entry of the ledger without our mark has been replaced, and is somebody else's.
   */
  takesBack?(options: Values): boolean
  connect(connection: Connection): Remote
}

export const guardOf = ({ capabilities: { guard } }: Provider, target: Values): Guard =>
  typeof guard === 'function' ? guard(target) : guard

/** Announced: shown in the list, not yet to be set up. */
export type AnnouncedProvider = Pick<Provider, 'slug' | 'name' | 'website' | 'docs' | 'glyph'>

/** What our marks at a vendor's say, in the forms that vendors have room for. */
export const ownerTags = (syncId: string) => ({ 'managed-by': 'coffer', 'coffer-sync': syncId })
export const ownerText = (syncId: string) => `managed-by:coffer sync=${syncId}`
