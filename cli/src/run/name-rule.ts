/** Which secrets become variables: the rule of the SDK, with what flags and `.coffer.json` allow. */
import { describeLeftOut, type LeftOut, whyNoVariable } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { isSet } from '../environment.ts'
import { CliError, usageError } from '../error.ts'
import type { Flags, FlagValues } from '../flag.ts'
import type { Settings } from '../place/place.ts'
import { trustedAllowNames } from '../place/trusted-names.ts'

export const nameFlags = {
  'allow-name': { type: 'list', value: 'KEY', about: 'Also set this name, which makes programs run other code' },
  'allow-unsafe': { type: 'boolean', about: 'Also set PATH, LD_PRELOAD and all other names that can run code' },
  strict: { type: 'boolean', about: 'Fail if a secret would be left out because of its name' },
  'no-strict': { type: 'boolean', about: 'Leave such secrets out without a terminal too' },
} as const satisfies Flags

export type NameRule = {
  readonly names: readonly string[]
  readonly all: boolean
  /** `known`: fails for names that earlier versions have set, so that a pipeline does not go on without them. */
  readonly strict: 'all' | 'known' | 'none'
}

export function nameRuleOf(ctx: Context, flags: FlagValues<typeof nameFlags>, settings: Settings): NameRule {
  if (flags.strict && flags['no-strict']) throw usageError('--strict and --no-strict contradict each other.')
  const isSeen = process.getBuiltinModule('node:tty').isatty(2) && !isSet(ctx.env.CI)
  return {
    names: [...flags['allow-name'].flatMap((names) => names.split(',')), ...trustedAllowNames(ctx, settings)],
    all: flags['allow-unsafe'],
    strict: flags.strict ? 'all' : isSeen || flags['no-strict'] ? 'none' : 'known',
  }
}

/** `wasSet`: whether the command of before set a variable of this name. */
export function refuseLeftOut(leftOut: readonly LeftOut[], rule: NameRule, wasSet: (name: string) => boolean): void {
  if (rule.strict === 'none') return
  const refused = rule.strict === 'all' ? leftOut : leftOut.filter(({ name, why }) => isName(why) && wasSet(name))
  const [first] = refused
  if (!first) return
  const allow = isName(first.why) ? `--allow-name ${first.name} to set it all the same, or ` : ''
  throw new CliError('failure', `${sentence(refused)}.`, `${allow}--no-strict to leave it out`)
}

/** Not the value. */
const isName = (why: string) => !why.includes('NUL')

/** For stderr. */
export function describe(leftOut: readonly LeftOut[]): string {
  const first = leftOut.find(({ name }) => whyNoVariable(name) !== undefined)
  return `${sentence(leftOut)}.${first ? ` try: --allow-name ${first.name}` : ''}`
}

const maxListed = 20

function sentence(leftOut: readonly LeftOut[]): string {
  const more = leftOut.length - maxListed
  return `Left out of the variables: ${describeLeftOut(leftOut.slice(0, maxListed))}${more > 0 ? ` and ${more} more` : ''}`
}
