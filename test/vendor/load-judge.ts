/**
 * Loads a module that checks a fake against the vendor's packages. These are large, so they are installed for the deep
 * tier only; otherwise the result is undefined. The specifier is a variable, so that type checking does not need the
 * packages.
 */
import { isDeep } from '../tier.ts'

export async function loadJudge<Module>(specifier: string): Promise<Module | undefined> {
  return isDeep ? await import(specifier) : undefined
}
