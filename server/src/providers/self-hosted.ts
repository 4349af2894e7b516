/** The optional address of a self-hosted service, for vendors whose cloud most people use. */
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

/** Returns the vendor's own address if none was given. */
export function baseUrlOf(baseUrl: string | undefined, fallback: string): string {
  return baseUrl === undefined || baseUrl === '' ? fallback : originOf(baseUrl)
}
