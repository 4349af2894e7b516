/**
 * A small, strict S3 service in memory, made from Amazon's API reference. The SDK's own signer recomputes every signature.
 * Parts follow Amazon's rules: checksums, 5 MiB at least, tags in order when they are joined.
 */
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { Sha256 } from '@aws-crypto/sha256-js'
import { SignatureV4 } from '@smithy/signature-v4'

const s3Keys = { accessKeyId: 'AKIAEXAMPLEEXAMPLE', secretAccessKey: 'test+secret/access+key' }
const region = 'eu-central-1'
const minPartBytes = 5 * 1024 * 1024

/**
 * What happens to a request instead of an answer. `cut`: the connection ends before the request is read. `cutBody`: it ends
 * in the middle of a response's body. `lostAnswer`: the request is carried out, and the connection ends.
 */
export type S3Fault = 'cut' | 'cutBody' | 'lostAnswer' | 'internalError' | 'slowDown' | 'errorIn200' | 'hang'
export type S3Seen = { readonly operation: string; readonly key: string; readonly partNumber: number }

type StoredObject = { readonly body: Buffer; readonly tag: string }
type PendingUpload = { readonly key: string; readonly initiated: string; readonly parts: Map<number, StoredObject> }

export type S3Server = {
  readonly url: string
  readonly bucket: string
  readonly objects: Map<string, StoredObject>
  readonly uploads: Map<string, PendingUpload>
  /** Every accepted request, in its order. */
  readonly seen: S3Seen[]
  /** Rules that a client has broken; a test expects none. */
  readonly violations: string[]
  /** Asked for each request. */
  fault: (seen: S3Seen) => S3Fault | undefined
  /** A hostile service: replaces the honest answer to a request. */
  twist: (seen: S3Seen, honest: S3Answer) => S3Answer
  pageSize: number
  /** The clock against which signatures are checked. */
  now: () => number
  /** Settings of a service that uses this one. */
  readonly settings: Record<string, string>
  close(): Promise<void>
}

/** A body of chunks is sent without a length, unless the headers have one. */
export type S3Answer = {
  status: number
  headers?: Record<string, string>
  body?: string | Buffer | (() => AsyncIterable<Buffer>)
}
class Refusal extends Error {
  readonly status: number
  readonly code: string
  constructor(status: number, code: string) {
    super(code)
    this.status = status
    this.code = code
  }
}

const md5 = (bytes: Uint8Array) => createHash('md5').update(bytes).digest()
const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;')
const xml = (root: string, content: string): S3Answer => ({
  status: 200,
  headers: { 'content-type': 'application/xml' },
  body: `<?xml version="1.0" encoding="UTF-8"?>\n<${root} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${content}</${root}>`,
})

export async function startS3(): Promise<S3Server> {
  const bucket = 'backups'
  const objects = new Map<string, StoredObject>()
  const uploads = new Map<string, PendingUpload>()
  let lastUpload = 0

  function store(body: Buffer): StoredObject {
    return { body, tag: `"${md5(body).toString('hex')}"` }
  }

  function requireUpload(id: string, key: string): PendingUpload {
    const upload = uploads.get(id)
    if (upload?.key !== key) throw new Refusal(404, 'NoSuchUpload')
    return upload
  }

  function putObject({ key, body, query }: Call): S3Answer {
    const uploadId = query.get('uploadId')
    const stored = store(body)
    if (uploadId === null) objects.set(key, stored)
    else {
      const number = Number(query.get('partNumber'))
      if (!(number >= 1 && number <= 10_000)) throw new Refusal(400, 'InvalidArgument')
      requireUpload(uploadId, key).parts.set(number, stored)
    }
    return { status: 200, headers: { etag: stored.tag } }
  }

  function startUpload({ key }: Call): S3Answer {
    const id = `up+load/${String(++lastUpload)}==`
    uploads.set(id, { key, initiated: new Date().toISOString(), parts: new Map() })
    return xml(
      'InitiateMultipartUploadResult',
      `<Bucket>${bucket}</Bucket><Key>${escaped(key)}</Key><UploadId>${id}</UploadId>`,
    )
  }

  function completeUpload({ key, query, body }: Call): S3Answer {
    const id = query.get('uploadId') ?? ''
    const { parts } = requireUpload(id, key)
    const text = body.toString()
    const listed = [...text.matchAll(/<Part><PartNumber>(\d+)<\/PartNumber><ETag>([^<]*)<\/ETag><\/Part>/g)]
    if (listed.length === 0) throw new Refusal(400, 'MalformedXML')
    const joined = listed.map(([, number, tag = ''], index) => {
      const part = parts.get(Number(number))
      if (part?.tag !== tag.replaceAll('&quot;', '"')) throw new Refusal(400, 'InvalidPart')
      if (index > 0 && Number(listed[index - 1]?.[1]) >= Number(number)) throw new Refusal(400, 'InvalidPartOrder')
      if (index < listed.length - 1 && part.body.length < minPartBytes) throw new Refusal(400, 'EntityTooSmall')
      return part
    })
    const content = Buffer.concat(joined.map((part) => part.body))
    const tag = `"${md5(Buffer.concat(joined.map((part) => md5(part.body)))).toString('hex')}-${joined.length}"`
    objects.set(key, { body: content, tag })
    uploads.delete(id)
    return xml('CompleteMultipartUploadResult', `<Key>${escaped(key)}</Key><ETag>${escaped(tag)}</ETag>`)
  }

  function listUploads({ query }: Call): S3Answer {
    const prefix = query.get('prefix') ?? ''
    const [keyMarker, idMarker] = [query.get('key-marker') ?? '', query.get('upload-id-marker') ?? '']
    const all = [...uploads]
      .filter(([, { key }]) => key.startsWith(prefix))
      .sort(([oneId, one], [otherId, other]) => (`${one.key} ${oneId}` < `${other.key} ${otherId}` ? -1 : 1))
      .filter(([id, { key }]) => key > keyMarker || (key === keyMarker && idMarker !== '' && id > idMarker))
    const page = all.slice(0, server.pageSize)
    const isTruncated = page.length < all.length
    const last = page.at(-1)
    const next =
      isTruncated && last
        ? `<NextKeyMarker>${last[1].key}</NextKeyMarker><NextUploadIdMarker>${last[0]}</NextUploadIdMarker>`
        : ''
    const entries = page.map(
      ([id, { key, initiated }]) =>
        `<Upload><Key>${escaped(key)}</Key><UploadId>${id}</UploadId><Initiator><ID>x</ID></Initiator><Initiated>${initiated}</Initiated></Upload>`,
    )
    return xml('ListMultipartUploadsResult', `${next}<IsTruncated>${isTruncated}</IsTruncated>${entries.join('')}`)
  }

  function listParts({ key, query }: Call): S3Answer {
    const { parts } = requireUpload(query.get('uploadId') ?? '', key)
    const after = Number(query.get('part-number-marker') ?? 0)
    const all = [...parts].filter(([number]) => number > after).sort(([one], [other]) => one - other)
    const page = all.slice(0, server.pageSize)
    const isTruncated = page.length < all.length
    const entries = page.map(
      ([number, { body, tag }]) =>
        `<Part><PartNumber>${number}</PartNumber><ETag>${escaped(tag)}</ETag><Size>${body.length}</Size></Part>`,
    )
    const next = isTruncated ? `<NextPartNumberMarker>${page.at(-1)?.[0]}</NextPartNumberMarker>` : ''
    return xml('ListPartsResult', `${next}<IsTruncated>${isTruncated}</IsTruncated>${entries.join('')}`)
  }

  function listObjects({ query }: Call): S3Answer {
    const prefix = query.get('prefix') ?? ''
    const after = Buffer.from(query.get('continuation-token') ?? '', 'base64').toString()
    const all = [...objects]
      .filter(([key]) => key.startsWith(prefix) && key > after)
      .sort(([a], [b]) => (a < b ? -1 : 1))
    const page = all.slice(0, server.pageSize)
    const isTruncated = page.length < all.length
    const token = Buffer.from(page.at(-1)?.[0] ?? '').toString('base64')
    const entries = page.map(
      ([key, { body }]) => `<Contents><Key>${escaped(key)}</Key><Size>${body.length}</Size></Contents>`,
    )
    const next = isTruncated ? `<NextContinuationToken>${token}</NextContinuationToken>` : ''
    return xml('ListBucketResult', `<IsTruncated>${isTruncated}</IsTruncated>${next}${entries.join('')}`)
  }

  function readObject({ key, headers }: Call): S3Answer {
    const found = objects.get(key)
    if (!found) throw new Refusal(404, 'NoSuchKey')
    const wanted = headers['if-match']
    if (wanted !== undefined && wanted !== found.tag) throw new Refusal(412, 'PreconditionFailed')
    const start = /^bytes=(\d+)-$/.exec(String(headers.range ?? ''))?.[1]
    if (start === undefined) return { status: 200, headers: { etag: found.tag }, body: found.body }
    if (Number(start) >= found.body.length) throw new Refusal(416, 'InvalidRange')
    return { status: 206, headers: { etag: found.tag }, body: found.body.subarray(Number(start)) }
  }

  const operations: Record<string, (call: Call) => S3Answer> = {
    PutObject: putObject,
    UploadPart: putObject,
    CreateMultipartUpload: startUpload,
    CompleteMultipartUpload: completeUpload,
    AbortMultipartUpload: ({ key, query }) => {
      requireUpload(query.get('uploadId') ?? '', key)
      uploads.delete(query.get('uploadId') ?? '')
      return { status: 204 }
    },
    ListMultipartUploads: listUploads,
    ListParts: listParts,
    ListObjectsV2: listObjects,
    GetObject: readObject,
    HeadObject: readObject,
    DeleteObject: ({ key }) => {
      objects.delete(key)
      return { status: 204 }
    },
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const call = readCall(request, bucket)
    const fault = server.fault(call)
    if (fault === 'cut') return void request.socket.destroy()
    if (fault === 'hang') return
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    if (fault === 'internalError') throw new Refusal(500, 'InternalError')
    if (fault === 'slowDown') throw new Refusal(503, 'SlowDown')
    if (fault === 'errorIn200') {
      return void response.writeHead(200).end('<?xml version="1.0"?>\n<Error><Code>InternalError</Code></Error>')
    }
    await checkSignature(request, call, body, server.now())
    checkBody(call, body, server.violations)
    const operation = operations[call.operation]
    if (!operation) throw new Refusal(501, 'NotImplemented')
    server.seen.push({ operation: call.operation, key: call.key, partNumber: call.partNumber })
    const { status, headers = {}, body: content = '' } = server.twist(call, operation({ ...call, body }))
    if (fault === 'lostAnswer') return void request.socket.destroy()
    if (typeof content === 'function') {
      return pipeline(content, response.writeHead(status, headers)).catch(() => undefined)
    }
    response.writeHead(status, { 'content-length': Buffer.byteLength(content), ...headers })
    if (call.operation === 'HeadObject') return void response.end()
    if (fault === 'cutBody') return void response.write(content.slice(0, content.length / 2), () => response.destroy())
    response.end(content)
  }

  const http = createServer((request, response) => {
    request.on('error', () => undefined)
    answer(request, response).catch((error: unknown) => {
      if (request.socket.destroyed) return
      const { status, code } = error instanceof Refusal ? error : new Refusal(500, 'InternalError')
      if (!(error instanceof Refusal)) server.violations.push(String(error))
      // As S3 does, an error of a HEAD request has no body.
      const text = request.method === 'HEAD' ? '' : `<?xml version="1.0"?>\n<Error><Code>${code}</Code></Error>`
      response.writeHead(status, { 'content-length': Buffer.byteLength(text) }).end(text)
    })
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const address = http.address()
  const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
  const server: S3Server = {
    url,
    bucket,
    objects,
    uploads,
    seen: [],
    violations: [],
    fault: () => undefined,
    twist: (_seen, honest) => honest,
    pageSize: 1_000,
    now: Date.now,
    settings: {
      AWS_REGION: region,
      AWS_ACCESS_KEY_ID: s3Keys.accessKeyId,
      AWS_SECRET_ACCESS_KEY: s3Keys.secretAccessKey,
      AWS_ENDPOINT_URL_S3: url,
    },
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve())
        http.closeAllConnections()
      }),
  }
  return server
}

type Call = S3Seen & {
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
}

/** Path style. */
function readCall({ method = '', url = '', headers }: IncomingMessage, bucket: string): Call {
  const { pathname, searchParams: query } = new URL(url, 'http://127.0.0.1')
  const key = decodeURIComponent(pathname.replace(`/${bucket}/`, ''))
  const names: Record<string, string> = {
    GET:
      key !== ''
        ? query.has('uploadId')
          ? 'ListParts'
          : 'GetObject'
        : query.has('uploads')
          ? 'ListMultipartUploads'
          : 'ListObjectsV2',
    HEAD: 'HeadObject',
    PUT: query.has('uploadId') ? 'UploadPart' : 'PutObject',
    POST: query.has('uploads') ? 'CreateMultipartUpload' : 'CompleteMultipartUpload',
    DELETE: query.has('uploadId') ? 'AbortMultipartUpload' : 'DeleteObject',
  }
  if (!pathname.startsWith(`/${bucket}/`)) throw new Refusal(404, 'NoSuchBucket')
  const partNumber = Number(query.get('partNumber') ?? 0)
  return { operation: names[method] ?? method, key, partNumber, path: pathname, query, headers, body: Buffer.alloc(0) }
}

/** An object or part must come with a checksum that fits it, and every request with the hash of its body. */
function checkBody({ operation, headers }: Call, body: Buffer, violations: string[]): void {
  const hash = createHash('sha256').update(body).digest('hex')
  if (headers['x-amz-content-sha256'] !== hash) throw new Refusal(400, 'XAmzContentSHA256Mismatch')
  const isStored = operation === 'PutObject' || operation === 'UploadPart'
  const given = headers['content-md5']
  if (isStored && given === undefined) violations.push(`${operation} without a checksum`)
  if (given !== undefined && given !== md5(body).toString('base64')) throw new Refusal(400, 'BadDigest')
  if (isStored && headers['content-length'] === undefined) throw new Refusal(411, 'MissingContentLength')
}

async function checkSignature(
  request: IncomingMessage,
  { path, query }: Call,
  body: Buffer,
  nowMs: number,
): Promise<void> {
  const { headers, method = '' } = request
  const [, keyId, scope, signedHeaders = ''] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), SignedHeaders=([^,]+), Signature=[0-9a-f]{64}$/.exec(
      headers.authorization ?? '',
    ) ?? []
  if (keyId !== s3Keys.accessKeyId) throw new Refusal(403, 'InvalidAccessKeyId')
  const names = signedHeaders.split(';')
  const required = [
    'host',
    'x-amz-date',
    ...Object.keys(headers).filter((name) => /^(x-amz-|content-(md5|type))/.test(name)),
  ]
  if (!required.every((name) => names.includes(name))) throw new Refusal(403, 'AccessDenied')
  const date = String(headers['x-amz-date'])
  const signingDate = new Date(date.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  if (!(Math.abs(nowMs - signingDate.getTime()) < 15 * 60_000)) throw new Refusal(403, 'RequestTimeTooSkewed')
  if (scope !== `${date.slice(0, 8)}/${region}/s3/aws4_request`) throw new Refusal(400, 'AuthorizationHeaderMalformed')
  const signer = new SignatureV4({
    credentials: s3Keys,
    region,
    service: 's3',
    sha256: Sha256,
    applyChecksum: false,
    // The rule of S3 alone: a path is not escaped a second time.
    uriEscapePath: false,
  })
  const signed = await signer.sign(
    {
      method,
      protocol: 'http:',
      hostname: '127.0.0.1',
      path,
      query: Object.fromEntries(query),
      headers: Object.fromEntries(names.map((name) => [name, String(headers[name] ?? '')])),
      body,
    },
    { signingDate, signableHeaders: new Set(names) },
  )
  if (signed.headers.authorization !== headers.authorization) throw new Refusal(403, 'SignatureDoesNotMatch')
}
