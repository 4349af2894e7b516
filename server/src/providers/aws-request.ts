/**
 * Signed requests to AWS. The error code decides what a refusal means, because the status is mostly 400 and sometimes
 * 404.
 */
import { type AwsCredentials, type SigningKeys, signAwsRequest } from '../aws-signature.ts'
import { tagIn } from '../xml-text.ts'
import { type FaultKind, type VendorFault, VendorRefusal } from './fault.ts'
import type { Connection } from './provider.ts'
import { clockFault } from './vendor-clock.ts'
import { faultOf, type VendorResponse } from './vendor-http.ts'
import { maybeTextAt } from './vendor-json.ts'

type AwsRequest = {
  readonly host: string
  readonly service: string
  readonly region: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Error codes that the caller handles itself. */
  readonly expected?: readonly string[]
}

/** An expected refusal, with the fault to throw if the caller cannot handle it. */
export type AwsRefusal = { readonly code: string; readonly fault: VendorFault }
export type AwsAnswer = { readonly response: VendorResponse; readonly refusal?: AwsRefusal }

/** A connection with the signing keys that its requests share. */
export type AwsConnection = Pick<Connection, 'http' | 'now'> & { readonly signingKeys: SigningKeys }

export const toAwsConnection = ({ http, now }: Connection): AwsConnection => ({ http, now, signingKeys: new Map() })

export async function sendToAws(
  { http, now, signingKeys }: AwsConnection,
  keys: AwsCredentials,
  { host, service, region, headers, body, expected = [] }: AwsRequest,
): Promise<AwsAnswer> {
  const url = `https://${host}/`
  const unsigned = { method: 'POST', url, headers, body, service, region, nowMs: now() } as const
  const signed = await signAwsRequest(keys, unsigned, signingKeys)
  const response = await http.send({
    method: 'POST',
    url,
    // With an Accept header for JSON, STS would not answer with XML, the only format in its documentation.
    headers: { accept: '*/*', ...signed },
    body,
    ...(service === 'sts' && { service: 'AWS STS' }),
    isRead: service === 'sts' || /\.(BatchGet|Describe|Get|List)/.test(headers['x-amz-target'] ?? ''),
    accept: (answer) => {
      const code = codeOf(answer)
      return expected.includes(code) || (code !== '' && answer.status < 500 && answer.status !== 429)
    },
    sort: (answer) => kinds[codeOf(answer)],
  })
  if (response.status < 300) return { response }

  const code = codeOf(response)
  const fault = awsFault(response, now(), code)
  if (!expected.includes(code)) throw fault
  return { response, refusal: { code, fault } }
}

/** In the order of the official clients. `__type` may have a namespace before a #, the header a URL after a colon. */
function codeOf({ headers, json, text }: VendorResponse): string {
  const header = headers['x-amzn-errortype']
  const named = typeof header === 'string' && header !== '' ? header : maybeTextAt(json, 'code')
  const code = named ?? maybeTextAt(json, '__type') ?? tagIn(text, 'Code') ?? ''
  return code.replace(/^.*#/, '').replace(/[:,].*$/, '')
}

function awsFault(response: VendorResponse, nowMs: number, code: string): VendorFault {
  const isOfKey = keyCodes.has(code) || isKeyRefusal(response)
  const { kind, message, facts } = faultOf(response, nowMs, isOfKey ? 'gone' : kinds[code])
  const byClock = kind === 'auth' ? clockFault(response, nowMs) : undefined
  if (byClock) return byClock
  const vendorMessage = facts.vendorMessage ?? tagIn(response.text, 'Message')
  const field = fieldByCode[code]
  return new VendorRefusal(kind, code === '' ? message : `AWS answered ${response.status} ${code}.`, {
    ...facts,
    ...(vendorMessage !== undefined && { vendorMessage }),
    ...(isOfKey && { remedy: 'Enable the KMS key at AWS, or choose another one in the mapping step.' }),
    ...(field !== undefined && { field }),
  })
}

/** The KMS key that encrypts the entries cannot be used. Neither a name nor a value is at fault. */
const keyCodes: ReadonlySet<string> = new Set([
  'EncryptionFailure',
  'DecryptionFailure',
  'InvalidKeyId',
  'DisabledException',
  'KMSInvalidStateException',
])

/** Some errors of KMS arrive under a code of the service that called it. */
const isKeyRefusal = (response: VendorResponse) =>
  response.status === 400 &&
  /\b(kms|key)\b.*\b(disabled|invalid state|pending (deletion|import))\b/i.test(
    maybeTextAt(response.json, 'message') ?? '',
  )

/** The field of the wizard's form that an error code refers to. */
const fieldByCode: Readonly<Record<string, string>> = {
  InvalidClientTokenId: 'accessKeyId',
  UnrecognizedClientException: 'accessKeyId',
  SignatureDoesNotMatch: 'secretAccessKey',
  InvalidSignatureException: 'secretAccessKey',
  OptInRequired: 'region',
  SubscriptionRequiredException: 'region',
  RegionDisabledException: 'region',
}

const codesByKind: Partial<Record<FaultKind, readonly string[]>> = {
  auth: [
    'UnrecognizedClientException',
    'InvalidClientTokenId',
    'InvalidSignatureException',
    'SignatureDoesNotMatch',
    'IncompleteSignature',
    'IncompleteSignatureException',
    'MissingAuthenticationToken',
    'MissingAuthenticationTokenException',
    'ExpiredToken',
    'ExpiredTokenException',
    'RequestExpired',
  ],
  scope: ['AccessDenied', 'AccessDeniedException', 'NotAuthorized', 'UnauthorizedOperation'],
  // The account is closed, or never had this service.
  gone: ['OptInRequired', 'SubscriptionRequiredException', 'RegionDisabledException'],
  rate: [
    'Throttling',
    'ThrottlingException',
    'TooManyRequestsException',
    'RequestLimitExceeded',
    'RequestThrottled',
    'RequestThrottledException',
    'TooManyUpdates',
  ],
  quota: ['LimitExceededException', 'ParameterLimitExceeded', 'ParameterMaxVersionLimitExceeded'],
  conflict: ['ResourceExistsException', 'ParameterAlreadyExists', 'HierarchyTypeMismatchException'],
  transient: ['InternalServiceError', 'InternalServerError', 'InternalFailure', 'ServiceUnavailable'],
}

const kinds: Readonly<Record<string, FaultKind>> = Object.fromEntries(
  Object.entries(codesByKind).flatMap(([kind, codes]) => codes.map((code) => [code, kind as FaultKind])),
)
