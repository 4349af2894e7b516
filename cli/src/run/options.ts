/** The flags of `coffer run`, and what they mean together with the environment. */
import type { Context } from '../context.ts'
import { readDuration } from '../duration.ts'
import { isSet } from '../environment.ts'
import { usageError } from '../error.ts'
import type { Flags, FlagValues } from '../flag.ts'
import type { EnvironmentOptions } from './child-environment.ts'
import { type NameRule, nameFlags } from './name-rule.ts'
import type { ReadOptions } from './read-source.ts'

export const runFlags = {
  watch: { type: 'boolean', about: 'Restart the command when a secret changes' },
  'watch-interval': { type: 'string', value: 'TIME', about: 'How often to ask for changes (5s)' },
  grace: { type: 'string', value: 'TIME', about: 'Time to end before a restart, then SIGKILL (10s)' },
  redact: { type: 'boolean', about: 'Hide values in output that is not a terminal' },
  show: { type: 'list', value: 'KEY', about: 'Do not hide this value' },
  only: { type: 'list', value: 'KEY,KEY', about: 'Only these secrets' },
  prefix: { type: 'string', value: 'P_', about: 'Put this before the name of every secret' },
  'preserve-env': { type: 'optional', value: 'K,K', about: 'Variables of the shell win over secrets: all, or these' },
  pristine: { type: 'boolean', about: 'Drop the variables of the shell, except --preserve-env=K,K' },
  ...nameFlags,
  shell: { type: 'boolean', about: 'Pass the command to /bin/sh' },
  offline: { type: 'boolean', about: 'Use the offline cache only' },
  'no-cache': { type: 'boolean', about: 'Neither read nor write the offline cache' },
  'cache-max-age': { type: 'string', value: 'TIME', about: 'Oldest cache to use in an outage (24h)' },
  'on-unresolved': {
    type: 'string',
    value: 'WAY',
    choices: ['error', 'keep', 'empty'],
    about: 'References that cannot be resolved',
  },
} as const satisfies Flags

type RunFlags = FlagValues<typeof runFlags>

export function readOptionsOf({ env }: Context, flags: RunFlags): ReadOptions {
  const isOffline = flags.offline || isSet(env.COFFER_OFFLINE)
  const isOff =
    flags['no-cache'] || (env.COFFER_CACHE !== undefined && env.COFFER_CACHE !== '' && !isSet(env.COFFER_CACHE))
  if (isOffline && isOff)
    throw usageError('There is no offline cache: it is switched off.', '--offline without --no-cache')
  const isAsked = isOffline || isSet(env.COFFER_CACHE) || flags['cache-max-age'] !== undefined
  return {
    // One of the choices of the flag.
    onUnresolved: (flags['on-unresolved'] ?? 'error') as ReadOptions['onUnresolved'],
    isOffline,
    usesCache: !isOff && (isAsked || !isSet(env.CI)),
    maxAgeMs: readDuration(flags['cache-max-age'], '--cache-max-age', { unset: '24h' }),
  }
}

/** No time at all would flood the service, and a timer beyond its longest time ends at once. */
export const timesOf = (flags: RunFlags): { readonly intervalMs: number; readonly graceMs: number } => ({
  intervalMs: readDuration(flags['watch-interval'], '--watch-interval', { unset: '5s', range: ['100ms', '24h'] }),
  graceMs: readDuration(flags.grace, '--grace', { unset: '10s', range: ['0s', '24h'] }),
})

export function environmentOptionsOf(
  flags: RunFlags,
  nameRule: NameRule,
  required: readonly string[] = [],
): EnvironmentOptions {
  const preserved = flags['preserve-env']
  if (flags.pristine && preserved === '') {
    throw usageError('--pristine and --preserve-env contradict each other.', '--pristine --preserve-env=PATH,HOME')
  }
  return {
    only: flags.only.length === 0 ? undefined : flags.only.flatMap((names) => splitNames(names, '--only')),
    prefix: flags.prefix ?? '',
    preserved: preserved === '' ? 'all' : preserved === undefined ? [] : splitNames(preserved, '--preserve-env'),
    isPristine: flags.pristine,
    nameRule,
    required,
  }
}

export function splitNames(text: string, flag: string): string[] {
  const names = text.split(',').map((name) => name.trim())
  if (names.includes('')) throw usageError(`${flag} must be names with commas between them.`, `${flag} KEY,KEY`)
  return names
}
