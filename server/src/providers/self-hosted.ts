/** The address of a service that people run themselves. Where it may lead is decided by the door to the outside. */
import type { InputField } from './provider.ts'

/** A scheme and a host, perhaps a port: what the provider adds to it is the provider's to say. */
const origin = /^https?:\/\/([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:\d{1,5})?\/?$/i

export function baseUrlField(field: Pick<InputField, 'label' | 'description' | 'defaultValue' | 'placeholder'>) {
  return {
    kind: 'text',
    id: 'baseUrl',
    isOptional: true,
    check: (value) =>
      origin.test(value) ? undefined : 'must be an address such as https://git.example.com, without a path.',
    ...field,
  } as const satisfies InputField
}

/** Without the slash at its end; the vendor's own where none was given. */
export function originOf(baseUrl: string | undefined, fallback: string): string {
  return baseUrl === undefined || baseUrl === '' ? fallback : baseUrl.replace(/\/$/, '').toLowerCase()
}
