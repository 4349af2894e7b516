/**
 * Loads a module that judges a fake. Judges come with the vendors' own packages, which are heavy: they are installed for
 * the deep tier alone, and there is none without it. The specifier is in a variable, so that types need no package either.
 */
import { isDeep } from '../tier.ts'

export async function loadJudge<Module>(specifier: string): Promise<Module | undefined> {
  return isDeep ? await import(specifier) : undefined
}
