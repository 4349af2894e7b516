/** Signs requests to AWS, and to other services with its protocol (Signature Version 4). The only module that does. */
import type { OutboundRequest } from './outbound.ts'

export type AwsCredentials = {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

type UnsignedRequest = {
  readonly method: NonNullable<OutboundRequest['method']>
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Left out if the header x-amz-content-sha256 has the body's hash. */
  readonly body?: string
  readonly service: string
  readonly region: string
  readonly nowMs: number
}

/** Signing keys are derived for a day, region and service: with this cache, a request computes only its signature. */
export type SigningKeys = Map<string, ArrayBuffer>

/** Returns all headers of the request, the signature among them. */
export async function signAwsRequest(
  credentials: AwsCredentials,
  { nowMs, headers, ...request }: UnsignedRequest,
  cache: SigningKeys,
): Promise<Record<string, string>> {
  // Loaded on demand: most installations send nothing to AWS.
  const { AwsV4Signer } = await import('aws4fetch')
  const signer = new AwsV4Signer({
    ...request,
    headers: { ...headers },
    ...credentials,
    cache,
    datetime: new Date(nowMs).toISOString().replace(/[:-]|\.\d{3}/g, ''),
    // Also signs the content type, which AWS requires and aws4fetch leaves out by default.
    allHeaders: true,
  })
  const signed = await signer.sign()
  return Object.fromEntries(signed.headers)
}

export function readAwsCredentials(text: (name: string) => string | undefined): AwsCredentials | undefined {
  const [accessKeyId, secretAccessKey] = [text('AWS_ACCESS_KEY_ID'), text('AWS_SECRET_ACCESS_KEY')]
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined
  const sessionToken = text('AWS_SESSION_TOKEN')
  return { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) }
}

/** The name of a setting that an HTTP header cannot carry. The secret key is only used to sign. */
export function unsendableCredential({ accessKeyId, sessionToken }: AwsCredentials): string | undefined {
  const sent = { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SESSION_TOKEN: sessionToken ?? 'none' }
  return Object.entries(sent).find(([, value]) => !/^[\x21-\x7e]+$/.test(value))?.[0]
}
