/**
 * Uploads a staged file in parts. S3 keeps the parts of an upload that was cut off: the next try asks for them and sends
 * only what is missing.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { escapeXml, tagIn, unescapeXml } from '../../../xml-text.ts'
import { copyOf, listEntries } from './s3-list.ts'
import type { S3Client } from './s3-request.ts'
import { TargetError, type TransferOptions } from './target.ts'

const mebibyte = 1024 * 1024
/** A file up to this size is sent as one. */
const minPartBytes = 8 * mebibyte
/** Limit of S3. */
const maxParts = 10_000

type Part = { readonly number: number; readonly start: number; readonly bytes: number }
type PartHash = { readonly md5: Buffer; readonly sha256: string }
export type Upload = { readonly key: string; readonly id: string; readonly at: number }

export async function uploadFile(client: S3Client, key: string, file: string, options: TransferOptions): Promise<void> {
  const { size } = await stat(file)
  // Names are never used twice, so an object of this name is this file: only the answer was lost.
  if ((await findBytes(client, key, options.signal)) === size) return
  if (size <= minPartBytes)
    await sendPart(client, { key, file, query: {}, part: { number: 1, start: 0, bytes: size } }, options)
  else await uploadParts(client, key, file, size, options)
  const stored = await findBytes(client, key, options.signal)
  if (stored !== size) throw new TargetError(`The backup target ${client.name} did not store the whole backup.`)
  options.onProgress?.(size, size)
}

async function uploadParts(
  client: S3Client,
  key: string,
  file: string,
  size: number,
  options: TransferOptions,
): Promise<void> {
  const partBytes = Math.max(minPartBytes, Math.ceil(size / maxParts / mebibyte) * mebibyte)
  const parts = Array.from({ length: Math.ceil(size / partBytes) }, (_, index): Part => {
    const start = index * partBytes
    return { number: index + 1, start, bytes: Math.min(partBytes, size - start) }
  })
  const uploadId =
    (await continueUpload(client, key, options.signal)) ?? (await startUpload(client, key, options.signal))
  const known = await listParts(client, key, uploadId, options.signal)
  const tags: string[] = []
  let done = 0
  for (const part of parts) {
    const query = { partNumber: String(part.number), uploadId }
    tags.push(await sendPart(client, { key, file, query, part, known: known.get(part.number) }, options))
    done += part.bytes
    options.onProgress?.(done, size)
  }
  await completeUpload(client, key, uploadId, tags, options.signal)
}

type PartRequest = {
  readonly key: string
  readonly file: string
  readonly query: Readonly<Record<string, string>>
  readonly part: Part
  /** Tag and size of the part that the service has already. */
  readonly known?: { readonly tag: string; readonly bytes: number } | undefined
}

/** Returns the part's tag. It is the MD5 of the part, unless the bucket encrypts with a key of its own. */
async function sendPart(client: S3Client, request: PartRequest, { signal }: TransferOptions): Promise<string> {
  const { key, file, query, part, known } = request
  const { md5, sha256 } = await hashPart(file, part, signal)
  if (known?.bytes === part.bytes && known.tag === `"${md5.toString('hex')}"`) return known.tag
  const { headers } = await client.send({
    method: 'PUT',
    key,
    query,
    // Both are checked by the service: the part that arrived is the part on disk.
    headers: { 'content-md5': md5.toString('base64') },
    bodyHash: sha256,
    body: { bytes: part.bytes, open: () => readPart(file, part) },
    signal,
  })
  return headers.etag ?? ''
}

function readPart(file: string, { start, bytes }: Part): AsyncIterable<Buffer> {
  return createReadStream(file, { start, end: start + bytes - 1, highWaterMark: 256 * 1024 })
}

async function hashPart(file: string, part: Part, signal: AbortSignal | undefined): Promise<PartHash> {
  const [md5, sha256] = [createHash('md5'), createHash('sha256')]
  for await (const chunk of readPart(file, part)) {
    signal?.throwIfAborted()
    md5.update(chunk)
    sha256.update(chunk)
  }
  return { md5: md5.digest(), sha256: sha256.digest('hex') }
}

async function startUpload(client: S3Client, key: string, signal: AbortSignal | undefined): Promise<string> {
  const { text } = await client.send({ method: 'POST', key, query: { uploads: '' }, signal })
  const id = tagIn(text, 'UploadId')
  if (!id) throw new TargetError(`The backup target ${client.name} did not begin the upload.`)
  return unescapeXml(id)
}

/** The newest upload of this key, if one was cut off. Older ones are dropped. */
async function continueUpload(
  client: S3Client,
  key: string,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const uploads = (await listUploads(client, key, signal)).filter((upload) => upload.key === key)
  const newest = uploads.sort((one, other) => other.at - one.at).shift()
  for (const upload of uploads) await abortUpload(client, upload, signal)
  return newest?.id
}

export function listUploads(client: S3Client, prefix: string, signal?: AbortSignal): Promise<Upload[]> {
  return listEntries(client, {
    query: { uploads: '', prefix, 'max-uploads': '1000' },
    root: 'ListMultipartUploadsResult',
    element: 'Upload',
    read: (element) => ({
      key: copyOf(element, 'Key'),
      id: copyOf(element, 'UploadId'),
      at: Date.parse(tagIn(element, 'Initiated') ?? ''),
    }),
    next: (page) => {
      const [key, id] = [tagIn(page, 'NextKeyMarker'), tagIn(page, 'NextUploadIdMarker')]
      return key ? { 'key-marker': unescapeXml(key), ...(id && { 'upload-id-marker': unescapeXml(id) }) } : undefined
    },
    signal,
  })
}

async function listParts(client: S3Client, key: string, uploadId: string, signal: AbortSignal | undefined) {
  const parts = await listEntries(client, {
    key,
    query: { uploadId, 'max-parts': '1000' },
    root: 'ListPartsResult',
    element: 'Part',
    read: (element) => {
      const part = { tag: copyOf(element, 'ETag'), bytes: Number(tagIn(element, 'Size')) }
      return [Number(tagIn(element, 'PartNumber')), part] as const
    },
    next: (page) => {
      const marker = tagIn(page, 'NextPartNumberMarker')
      return marker ? { 'part-number-marker': unescapeXml(marker) } : undefined
    },
    signal,
  })
  return new Map(parts)
}

async function completeUpload(
  client: S3Client,
  key: string,
  uploadId: string,
  tags: readonly string[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const parts = tags.map(
    (tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${escapeXml(tag)}</ETag></Part>`,
  )
  const body = `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join('')}</CompleteMultipartUpload>`
  // Unknown after a lost answer, since the upload is complete then: the caller looks at the object.
  await client.send({
    method: 'POST',
    key,
    query: { uploadId },
    headers: { 'content-type': 'application/xml' },
    body,
    expected: ['NoSuchUpload'],
    signal,
  })
}

export async function abortUpload(client: S3Client, { key, id }: Upload, signal?: AbortSignal): Promise<void> {
  const expected = ['NoSuchUpload', 'NotFound']
  await client.send({ method: 'DELETE', key, query: { uploadId: id }, expected, signal })
}

/** Size of the object; undefined if there is none. */
async function findBytes(client: S3Client, key: string, signal: AbortSignal | undefined): Promise<number | undefined> {
  const { refusal, headers } = await client.send({ method: 'HEAD', key, expected: ['NotFound'], signal })
  return refusal === undefined ? Number(headers['content-length']) : undefined
}
