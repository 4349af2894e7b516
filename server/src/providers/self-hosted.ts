/** The optional address of a service that people run themselves, where most use the vendor's own. */
import { checkOrigin, originOf } from './origin.ts'
import type { InputField } from './provider.ts'

export function baseUrlField(field: Pick<InputField, 'label' | 'description' | 'defaultValue' | 'placeholder'>) {
  return {
    kind: 'text',
    id: 'baseUrl',
    isOptional: true,
    isAddress: true,
    check: checkOrigin,
    ...field,
  } as const satisfies InputField
}

/** The vendor's own where none was given. */
export function baseUrlOf(baseUrl: string | undefined, fallback: string): string {
  return baseUrl === undefined || baseUrl === '' ? fallback : originOf(baseUrl)
}
