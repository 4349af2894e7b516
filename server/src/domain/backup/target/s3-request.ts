/** Signed requests to a bucket. Refusals that may pass are retried a few times; others become one sentence. */
import { createHash } from 'node:crypto'
import { type AwsCredentials, signAwsRequest, unsendableCredential } from '../../../aws-signature.ts'
import type { S3Settings } from '../../../backup-setting.ts'
import { s3Problem } from '../../../backup-setting.ts'
import { OutboundError, type OutboundRequest, type OutboundResponse } from '../../../outbound.ts'
import { isFault, VendorFault } from '../../../providers/fault.ts'
import { withRetries } from '../../../providers/retry.ts'
import { tagIn } from '../../../xml-text.ts'
import type { Services } from '../../context.ts'
import { TargetError } from './target.ts'

type Body = NonNullable<OutboundRequest['body']>

type S3Request = {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  /** Of the object; undefined for the bucket itself. */
  readonly key?: string
  readonly query?: Readonly<Record<string, string>>
  /** A function is asked before each try. */
  readonly headers?: Readonly<Record<string, string>> | (() => Readonly<Record<string, string>>)
  readonly body?: Body
  /** SHA-256 of the body in hex; needed for a streamed one. */
  readonly bodyHash?: string
  readonly save?: OutboundRequest['save']
  readonly maxBytes?: number
  /** Error codes that the caller handles itself. A HEAD request has no code: NotFound stands for 404. */
  readonly expected?: readonly string[]
  readonly signal?: AbortSignal | undefined
}

type S3Answer = {
  readonly status: number
  readonly headers: OutboundResponse['headers']
  readonly text: string
  /** Set for an expected refusal. */
  readonly refusal?: string
}

export type S3Client = { readonly name: string; send(request: S3Request): Promise<S3Answer> }

/** Time without progress. */
const timeoutMs = 30_000

type ClientContext = Pick<Services, 'outbound' | 'now' | 'sleep'>

export function createS3Client(ctx: ClientContext, settings: S3Settings, bucket: string): S3Client {
  const { outbound, now, sleep } = ctx
  const name = `s3://${bucket}`
  const credentials = requireCredentials(settings)
  const region = settings.region ?? 'us-east-1'
  const base = baseUrl(settings, region, bucket)
  const signingKeys = new Map<string, ArrayBuffer>()

  async function sendOnce(request: S3Request): Promise<S3Answer> {
    const { method, key = '', query = {}, body, signal, save, maxBytes } = request
    const search = new URLSearchParams(query).toString()
    const url = `${base}${key.split('/').map(encodeURIComponent).join('/')}${search === '' ? '' : `?${search}`}`
    const bodyHash = request.bodyHash ?? createHash('sha256').update(asBytes(body)).digest('hex')
    const given = typeof request.headers === 'function' ? request.headers() : request.headers
    const headers = { ...given, 'x-amz-content-sha256': bodyHash }
    const signed = await signAwsRequest(
      credentials,
      { method, url, headers, service: 's3', region, nowMs: now() },
      signingKeys,
    )
    const answer = await outbound
      .request({
        reach: 'operator',
        method,
        url,
        headers: { 'user-agent': 'coffer', ...signed },
        timeoutMs,
        ...(body !== undefined && { body }),
        ...(save !== undefined && { save }),
        ...(maxBytes !== undefined && { maxBytes }),
        ...(signal !== undefined && { signal }),
      })
      .catch((error: unknown) => {
        signal?.throwIfAborted()
        if (!(error instanceof OutboundError)) throw error
        const isFinal = error.kind === 'bad_url' || error.kind === 'too_large' || error.isUntrusted
        const kind = isFinal ? 'gone' : 'transient'
        throw new VendorFault(kind, `The backup target ${name} cannot be used: ${error.message}`)
      })
    return judge(request, answer)
  }

  function judge({ expected = [] }: S3Request, { status, headers, body }: OutboundResponse): S3Answer {
    const text = body.toString('utf8')
    const code = errorCode(status, text)
    if (code === undefined) return { status, headers, text }
    if (expected.includes(code)) return { status, headers, text, refusal: code }
    const mayPass = status >= 500 || status === 429 || status === 408 || passing.has(code)
    throw new VendorFault(mayPass ? 'transient' : 'invalid', sentence(name, status, code))
  }

  return {
    name,
    async send(request) {
      try {
        return await withRetries(() => sendOnce(request), { sleep, signal: request.signal })
      } catch (error) {
        request.signal?.throwIfAborted()
        throw isFault(error) ? new TargetError(error.message) : error
      }
    },
  }
}

/** Also sent with status 200: joining the parts of an upload takes long, and may fail after the status was sent. */
const passing: ReadonlySet<string> = new Set(['InternalError', 'SlowDown', 'ServiceUnavailable', 'RequestTimeout'])

function errorCode(status: number, text: string): string | undefined {
  const isError = status < 200 || status >= 300
  if (!isError && !text.includes('<Error>')) return undefined
  const code = tagIn(text, 'Code') ?? (status === 404 ? 'NotFound' : '')
  return /^[A-Za-z0-9.]{1,64}$/.test(code) ? code : ''
}

const causes: Readonly<Record<string, string>> = {
  AccessDenied: 'its key lacks a permission; docs/backup.md lists those that are needed',
  NoSuchBucket: 'there is no such bucket',
  InvalidAccessKeyId: 'AWS_ACCESS_KEY_ID is not known there',
  SignatureDoesNotMatch: 'AWS_SECRET_ACCESS_KEY is wrong',
  ExpiredToken: 'AWS_SESSION_TOKEN has expired',
  InvalidToken: 'AWS_SESSION_TOKEN is wrong',
  RequestTimeTooSkewed: "this machine's clock is wrong: set it",
  AuthorizationHeaderMalformed: 'AWS_REGION is not the region of the bucket',
  PermanentRedirect: 'AWS_REGION is not the region of the bucket',
  EntityTooLarge: 'the backup is larger than the service takes',
}

function sentence(name: string, status: number, code: string): string {
  const cause = causes[code]
  const answer = `The backup target ${name} answered ${[status, code].filter(Boolean).join(' ')}`
  return cause === undefined ? `${answer}.` : `${answer}: ${cause}.`
}

function requireCredentials(settings: S3Settings): AwsCredentials {
  const problem = s3Problem(settings)
  if (problem !== undefined || settings.credentials === undefined) throw new TargetError(`A target in S3 ${problem}`)
  const wrong = unsendableCredential(settings.credentials)
  if (wrong === undefined) return settings.credentials
  throw new TargetError(`${wrong} contains characters that an HTTP header cannot carry: check it for spaces.`)
}

/** Other services are addressed in path style, and so are names with dots, which no certificate of AWS covers. */
function baseUrl({ endpoint }: S3Settings, region: string, bucket: string): string {
  if (endpoint !== undefined) return `${new URL(endpoint).origin}/${bucket}/`
  const domain = `s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
  return bucket.includes('.') ? `https://${domain}/${bucket}/` : `https://${bucket}.${domain}/`
}

function asBytes(body: Body | undefined): string | Uint8Array {
  if (typeof body === 'object' && 'open' in body) throw new Error('a streamed body needs its hash')
  return body ?? ''
}
