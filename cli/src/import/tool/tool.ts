/** A tool whose JSON exports are recognised. */
import type { Found } from '../entry.ts'
import type { Json } from '../json.ts'

export type Tool = {
  /** For `--format` and for remarks. */
  readonly format: string
  readonly name: string
  /** True only if no other meaning of the JSON is likely. */
  recognises(documents: readonly Json[]): boolean
  /** Undefined if the JSON does not have this form. */
  read(documents: readonly Json[]): Found | undefined
}
