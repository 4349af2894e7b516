/** Type-level assertions, checked by the compiler alone. */

/** Arrays that are read-only in one of the two make no difference. */
type Plain<Type> = Type extends readonly (infer Item)[]
  ? readonly Plain<Item>[]
  : Type extends object
    ? { readonly [Key in keyof Type]: Plain<Type[Key]> }
    : Type

/** With every optional field required: a missing optional field would go unnoticed otherwise. */
type Complete<Type> = Type extends readonly (infer Item)[]
  ? readonly Complete<Item>[]
  : Type extends object
    ? { readonly [Key in keyof Type]-?: Complete<Type[Key]> }
    : Type

type Mutual<One, Other> = [One] extends [Other] ? ([Other] extends [One] ? true : false) : false

/** True if each type is assignable to the other, and both have the same fields. */
export type Same<One, Other> =
  Mutual<Plain<One>, Plain<Other>> extends true ? Mutual<Complete<One>, Complete<Other>> : false

/** The arguments of a call without its options. */
export type Given<Call extends (...given: never[]) => unknown> =
  Required<Parameters<Call>> extends [...infer Arguments, unknown] ? Arguments : never

export type AllTrue<Checks extends readonly true[]> = Checks
