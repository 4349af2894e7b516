/** Sets secrets as environment variables, except those that make programs run other code. */
import { SettingError } from './error.ts'
import { describeLeftOut, type LeftOut, whyLeftOut } from './variable-name.ts'

export type InjectOptions = {
  /** The variables of the platform by default. */
  readonly into?: Record<string, string | undefined>
  /** Names to set although a program obeys them, or although they are no names of variables. */
  readonly allowNames?: readonly string[]
  /** Sets every name. */
  readonly allowUnsafe?: boolean
  /** Throws and sets nothing if a secret would be left out. */
  readonly strict?: boolean
  /** By default, a line on stderr names the secrets that are left out. */
  readonly onLeftOut?: (leftOut: readonly LeftOut[]) => void
}

/** Returns the secrets that were left out. */
export function injectValues(
  values: ReadonlyMap<string, string>,
  env: Record<string, string | undefined>,
  { into = env, allowNames = [], allowUnsafe = false, strict = false, onLeftOut = say }: InjectOptions,
): readonly LeftOut[] {
  const allowed = { names: allowNames, all: allowUnsafe }
  const leftOut: LeftOut[] = []
  const chosen: [string, string][] = []
  for (const [name, value] of values) {
    const why = whyLeftOut(name, value, allowed)
    if (why === undefined) chosen.push([name, value])
    else leftOut.push({ name, why })
  }
  if (strict && leftOut.length > 0)
    throw new SettingError(`These secrets become no variables: ${describeLeftOut(leftOut)}.`)
  for (const [name, value] of chosen) into[name] = value
  if (leftOut.length > 0) onLeftOut(leftOut)
  return leftOut
}

const say = (leftOut: readonly LeftOut[]) =>
  console.error(`coffer: left out of the variables: ${describeLeftOut(leftOut)}.`)
