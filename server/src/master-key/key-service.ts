/** A key service that wraps the master key, and requests to it. */
import { type Outbound, OutboundError, type OutboundResponse } from '../outbound.ts'
import { MasterKeyError } from './error.ts'

export type Wrapping = {
  kind: 'aws-kms' | 'google-kms' | 'azure-key-vault' | 'transit'
  name: string
  wrap(key: Uint8Array): Promise<string>
  unwrap(wrapped: string): Promise<Uint8Array>
}

export type WrappingOptions = { outbound: Outbound }
type ServiceRequest = { url: string; method?: 'GET' | 'POST'; headers: Record<string, string>; body?: string }

/** Sends the request and parses the response. Neither's content reaches an error. */
export async function callService(outbound: Outbound, name: string, request: ServiceRequest): Promise<unknown> {
  const response = await send(outbound, name, request)
  if (response.status !== 200) {
    throw new MasterKeyError(
      `${name} refused the request for the master key with status ${response.status}; check the key and its permissions.`,
    )
  }
  try {
    const answer: unknown = JSON.parse(response.body.toString('utf8'))
    return answer
  } catch {
    throw unusable(name)
  }
}

async function send(outbound: Outbound, name: string, request: ServiceRequest): Promise<OutboundResponse> {
  try {
    // The operator chose the service, and a private endpoint can give even Amazon's own host name a private address.
    return await outbound.request({ method: 'POST', ...request, reach: 'operator' })
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error
    throw new MasterKeyError(`The master key could not be fetched from ${name}: ${error.message}`)
  }
}

export function requireUrl(text: string, name: string): URL {
  const url = URL.parse(text)
  const isPlain = url?.search === '' && url.hash === '' && url.username === '' && url.password === ''
  if (url === null || !isPlain || !/^https?:$/.test(url.protocol)) {
    throw new MasterKeyError(`The address of ${name} must be a plain https URL without a query.`)
  }
  return url
}

export function requireText(answer: unknown, field: string, name: string): string {
  const text = fieldOf(answer, field)
  if (typeof text !== 'string' || text === '') throw unusable(name)
  return text
}

export function fieldOf(value: unknown, field: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, field) : undefined
}

export function unusable(name: string): MasterKeyError {
  return new MasterKeyError(`The response of ${name} holds no usable master key; check its address.`)
}

export function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64')
}

export function fromBase64(text: string): Uint8Array {
  return Buffer.from(text, 'base64')
}
