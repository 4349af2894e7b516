/** What `doctor` says: one finding is one line. A check yields one or more of them. */
import { codeOf } from '../../error-code.ts'
import { Failure } from '../../failure.ts'

export type Finding = {
  /** `note`: works, but should be known. `wrong`: must be mended. */
  readonly level: 'ok' | 'note' | 'wrong'
  readonly what: string
  /** Why it matters, and the command or setting that mends it; both undefined if all is well. */
  readonly why?: string
  readonly fix?: string
}

export type Check = {
  readonly name: string
  run(): Promise<Finding | readonly Finding[]>
  /** For an error with a sentence of ours, and for a check that does not end. */
  readonly why: string
  readonly fix: string
  /** Reads the whole store, and reports its progress: has no time limit. */
  readonly isLong?: boolean
}

export const ok = (what: string): Finding => ({ level: 'ok', what })
export const note = (what: string, why: string, fix: string): Finding => ({ level: 'note', what, why, fix })
export const wrong = (what: string, why: string, fix: string): Finding => ({ level: 'wrong', what, why, fix })

const limitMs = 10_000

/** One dead peer must not hang the others: a check that takes too long is a finding itself. */
export async function runCheck(check: Check): Promise<readonly Finding[]> {
  const { promise: late, resolve } = Promise.withResolvers<Finding>()
  const sentence = `no result within ${limitMs / 1_000} seconds`
  const timer = check.isLong ? undefined : setTimeout(() => resolve(wrong(sentence, check.why, check.fix)), limitMs)
  try {
    const found = await Promise.race([check.run(), late])
    return 'level' in found ? [found] : found
  } catch (error) {
    return [wrong(sentenceOf(error), check.why, check.fix)]
  } finally {
    clearTimeout(timer)
  }
}

/** Errors of other libraries have a code, and their text may hold anything. */
export function sentenceOf(error: unknown): string {
  const isOurs = error instanceof Failure || (error instanceof Error && !('code' in error))
  return isOurs ? error.message : `the check failed (${codeOf(error)})`
}

export function lineOf(name: string, { level, what, why, fix }: Finding): string {
  const parts = why === undefined ? [what] : [withStop(what), why, `Fix: ${fix}`]
  return `  ${level.padEnd(5)}  ${name}: ${parts.join(' ')}\n`
}

const withStop = (text: string) => (/[.!?]$/.test(text) ? text : `${text}.`)
