/** Backups in a bucket of Amazon S3, or of a service with the same protocol. */
import { stat } from 'node:fs/promises'
import type { BackupPlace } from '../../../backup-setting.ts'
import { tagIn, unescapeXml } from '../../../xml-text.ts'
import type { Services } from '../../context.ts'
import { hourMs, minuteMs } from '../../time.ts'
import { withDeadline } from './deadline.ts'
import { writeDurably } from './file-copy.ts'
import { backupTime, isStoredName, markedBackup } from './name.ts'
import { copyOf, listEntries } from './s3-list.ts'
import { createS3Client, type S3Client } from './s3-request.ts'
import { abortUpload, listUploads, uploadFile } from './s3-upload.ts'
import {
  type BackupTarget,
  byAge,
  type StoredFile,
  TargetError,
  type TargetOptions,
  type TransferOptions,
} from './target.ts'

/** Requests that move little, however many they are. */
const listWithinMs = 15 * minuteMs
/** Slower than 64 KiB a second, no bucket is of use. */
const transferWithinMs = (bytes: number) => hourMs + bytes / 64
/** Of one download. */
const maxResumes = 1_000

type Limited = { readonly signal: AbortSignal }
type BucketContext = Pick<Services, 'config' | 'outbound' | 'now' | 'sleep'>

export function openBucket(ctx: BucketContext, place: Extract<BackupPlace, { kind: 's3' }>): BackupTarget {
  const client = createS3Client(ctx, ctx.config.s3, place.bucket)
  const folder = place.prefix === '' ? '' : `${place.prefix}/`
  const keyOf = (name: string) => `${folder}${name}`

  const name = `${client.name}${place.prefix === '' ? '' : `/${place.prefix}`}`
  const soon = <Result>(options: TargetOptions, work: (options: Limited) => Promise<Result>) =>
    withDeadline(name, listWithinMs, options, work)
  const transfer = <Result>(bytes: number, options: TargetOptions, work: (options: Limited) => Promise<Result>) =>
    withDeadline(name, transferWithinMs(bytes), options, work)

  return {
    name,
    check: (options = {}) =>
      soon(options, async ({ signal }) => void (await findListedBytes(client, keyOf('coffer-check'), signal))),
    list: (options = {}) => soon(options, ({ signal }) => listFiles(client, folder, signal)),
    findBytes: (name, options = {}) => soon(options, ({ signal }) => findListedBytes(client, keyOf(name), signal)),
    async put(name, stagedFile, options = {}) {
      const { size } = await stat(stagedFile)
      await transfer(size, options, (limited) =>
        uploadFile(client, keyOf(name), stagedFile, { ...options, ...limited }),
      )
    },
    async read(name, maxBytes, options = {}) {
      const { text } = await soon(options, ({ signal }) =>
        client.send({ method: 'GET', key: keyOf(name), maxBytes, signal }),
      )
      return text
    },
    download: (name, file, bytes, options = {}) =>
      transfer(bytes, options, (limited) => downloadFile(client, keyOf(name), file, bytes, { ...options, ...limited })),
    async remove(name, options = {}) {
      const expected = ['NoSuchKey', 'NotFound']
      await soon(options, ({ signal }) => client.send({ method: 'DELETE', key: keyOf(name), expected, signal }))
    },
    dropUnfinished: (beforeMs, except, options = {}) =>
      soon(options, async ({ signal }) => {
        for (const upload of await listUploads(client, folder, signal)) {
          const name = upload.key.slice(folder.length)
          if (isStoredName(name) && !except.has(name) && upload.at < beforeMs) await abortUpload(client, upload, signal)
        }
      }),
  }
}

function listFiles(client: S3Client, folder: string, signal: AbortSignal): Promise<StoredFile[]> {
  return listObjects(client, `${folder}coffer-`, signal, (element) => {
    const name = copyOf(element, 'Key').slice(folder.length)
    const at = backupTime(markedBackup(name) ?? name)
    return at === undefined ? undefined : { name, bytes: Number(tagIn(element, 'Size')), at }
  }).then((files) => files.sort(byAge))
}

/** The key is the first of those that begin with it. */
async function findListedBytes(client: S3Client, key: string, signal: AbortSignal): Promise<number | undefined> {
  const [bytes] = await listObjects(client, key, signal, (element) =>
    copyOf(element, 'Key') === key ? Number(tagIn(element, 'Size')) : undefined,
  )
  return bytes
}

function listObjects<Entry>(
  client: S3Client,
  prefix: string,
  signal: AbortSignal,
  read: (element: string) => Entry | undefined,
): Promise<Entry[]> {
  return listEntries(client, {
    query: { 'list-type': '2', prefix, 'max-keys': '1000' },
    root: 'ListBucketResult',
    element: 'Contents',
    read,
    next: (page) => {
      const token = tagIn(page, 'NextContinuationToken')
      return token ? { 'continuation-token': unescapeXml(token) } : undefined
    },
    signal,
  })
}

/** A connection that is cut off goes on where it stopped. */
async function downloadFile(
  client: S3Client,
  key: string,
  file: string,
  total: number,
  options: TransferOptions,
): Promise<void> {
  const { onProgress, signal } = options
  const broken = (what: string) => new TargetError(`The backup target ${client.name} ${what} ${key}.`)
  const head = await client.send({ method: 'HEAD', key, expected: ['NotFound'], signal })
  if (head.refusal !== undefined) throw broken('has no')
  if (Number(head.headers['content-length']) !== total) throw broken('lists another size than it sends of')
  const tag = head.headers.etag
  await writeDurably(file, async (handle) => {
    let done = 0
    let lie: TargetError | undefined
    // Of the same object only: somebody may have replaced it.
    const headers = () => ({ range: `bytes=${done}-`, ...(tag !== undefined && { 'if-match': tag }) })
    const save = async (body: AsyncIterable<Buffer>, status: number) => {
      const isPart = status === 206
      if (!isPart) done = 0
      for await (const chunk of body) {
        if (done + chunk.length > total) {
          lie = broken('sends more than it lists of')
          throw lie
        }
        await handle.write(chunk, 0, chunk.length, done)
        done += chunk.length
        onProgress?.(done, total)
      }
    }
    for (let tries = 0; done < total; tries++) {
      if (tries > maxResumes) throw broken('was cut off too often while it sent')
      const before = done
      // As long as each try brings something, the next one may bring the rest.
      await client.send({ method: 'GET', key, headers, save, maxBytes: total, signal }).catch((error: unknown) => {
        if (!(error instanceof TargetError) || error === lie || done === before) throw error
      })
      if (done === before) throw broken('sent nothing of')
    }
  })
}
