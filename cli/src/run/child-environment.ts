/**
 * The variables of the command: those of the shell, and the secrets, which take precedence. Every start runs this once, in
 * an interpreter: loops that take pairs apart, and expressions for each name, would take a millisecond with 100 secrets.
 */
import { type LeftOut, wasAlwaysRefused, whyLeftOut } from '@coffer/sdk'
import type { Environment } from '../environment.ts'
import { CliError } from '../error.ts'
import type { Found } from '../source/source.ts'
import { type NameRule, refuseLeftOut } from './name-rule.ts'

/** Secrets under the names that the command sees. */
export type Variables = ReadonlyMap<string, Variable>
type Variable = Found<string>

export type EnvironmentOptions = {
  /** Only these secrets. */
  readonly only: readonly string[] | undefined
  /** Put before the name of every secret. */
  readonly prefix: string
  /** Variables of the shell that take precedence over secrets: all, or those named. */
  readonly preserved: 'all' | readonly string[]
  /** Drop the variables of the shell, except those of `preserved`. */
  readonly isPristine: boolean
  readonly nameRule: NameRule
  readonly required: readonly string[]
}

export type ChildEnvironment = {
  readonly variables: Readonly<Record<string, string>>
  /** The secrets among them. */
  readonly secrets: Variables
  /** Why variables have the values that they have, without the values. */
  readonly remarks: readonly string[]
  /** Secrets that are no variables. */
  readonly leftOut: readonly LeftOut[]
}

/** Credentials of the command line, which are not for the command. */
const isCredential = (name: string) => name.startsWith('COFFER_TOKEN') || name.startsWith('COFFER_ID_TOKEN')

export function buildEnvironment(shell: Environment, found: Variables, options: EnvironmentOptions): ChildEnvironment {
  const { preserved, isPristine, nameRule } = options
  const leftOut: LeftOut[] = []
  const remarks: string[] = []
  const isNamed = (name: string) => preserved !== 'all' && preserved.includes(name)
  // Without a prototype, because a secret may be called `__proto__`.
  const variables: Record<string, string> = Object.create(null)
  for (const name of Object.keys(shell)) {
    const value = shell[name]
    if (value === undefined || (isPristine && !isNamed(name))) continue
    if (!isCredential(name) || isNamed(name)) variables[name] = value
  }
  const secrets = new Map<string, Variable>()
  chooseSecrets(found, options).forEach((secret, name) => {
    const isInShell = name in variables
    if (isInShell && (preserved === 'all' || isNamed(name))) {
      remarks.push(`${name}: from the shell, not from ${secret.from} (--preserve-env)`)
      return
    }
    const why = whyLeftOut(name, secret.value, nameRule)
    if (why !== undefined) {
      leftOut.push({ name, why })
      return
    }
    if (isInShell) remarks.push(`${name}: from ${secret.from}, replaces the variable of the shell`)
    secrets.set(name, secret)
    variables[name] = secret.value
  })
  refuseLeftOut(leftOut, nameRule, (name) => !wasAlwaysRefused(name))
  const missing = options.required.filter((name) => !(name in variables))
  if (missing.length > 0) {
    const left = leftOut.find(({ name }) => missing.includes(name))
    const text = `${listNames(missing)} must be set, as run.required of .coffer.json says.`
    throw new CliError('runFailed', left ? `${text} ${left.name} is left out: ${left.why}.` : text)
  }
  return { variables, secrets, remarks, leftOut }
}

function chooseSecrets(found: Variables, { only, prefix }: EnvironmentOptions): Variables {
  if (!only && prefix === '') return found
  const chosen = new Map<string, Variable>()
  found.forEach((secret, name) => {
    if (!only || only.includes(prefix + name)) chosen.set(prefix + name, secret)
  })
  const missing = only?.filter((name) => !chosen.has(name)) ?? []
  if (missing.length > 0) throw new CliError('runFailed', `There is no secret ${listNames(missing)} here.`)
  return chosen
}

export const listNames = (names: readonly string[]): string =>
  names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ')

/** Names whose values differ between two environments. */
export function changedNames(before: ChildEnvironment, after: ChildEnvironment): string[] {
  const names = new Set([...Object.keys(before.variables), ...Object.keys(after.variables)])
  return [...names].filter((name) => before.variables[name] !== after.variables[name]).sort()
}
