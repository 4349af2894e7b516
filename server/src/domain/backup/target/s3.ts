/** Backups in a bucket of Amazon S3, or of a service with the same protocol. */
import type { BackupPlace } from '../../../backup-setting.ts'
import { elementsIn, tagIn, unescapeXml } from '../../../xml-text.ts'
import type { Services } from '../../context.ts'
import { writeDurably } from './file-copy.ts'
import { backupTime, isStoredName, markedBackup } from './name.ts'
import { createS3Client, type S3Client } from './s3-request.ts'
import { abortUpload, listUploads, uploadFile } from './s3-upload.ts'
import { type BackupTarget, byAge, type StoredFile, TargetError, type TransferOptions } from './target.ts'

type BucketContext = Pick<Services, 'config' | 'outbound' | 'now' | 'sleep'>

export function openBucket(ctx: BucketContext, place: Extract<BackupPlace, { kind: 's3' }>): BackupTarget {
  const client = createS3Client(ctx, ctx.config.s3, place.bucket)
  const folder = place.prefix === '' ? '' : `${place.prefix}/`
  const keyOf = (name: string) => `${folder}${name}`

  return {
    name: `${client.name}${place.prefix === '' ? '' : `/${place.prefix}`}`,
    list: () => listFiles(client, folder),
    put: (name, stagedFile, options = {}) => uploadFile(client, keyOf(name), stagedFile, options),
    download: (name, file, options = {}) => downloadFile(client, keyOf(name), file, options),
    async remove(name) {
      await client.send({ method: 'DELETE', key: keyOf(name), expected: ['NoSuchKey', 'NotFound'] })
    },
    async dropUnfinished(beforeMs, except) {
      for (const upload of await listUploads(client, folder)) {
        const name = upload.key.slice(folder.length)
        if (isStoredName(name) && !except.has(name) && upload.at < beforeMs) await abortUpload(client, upload)
      }
    },
  }
}

async function listFiles(client: S3Client, folder: string): Promise<StoredFile[]> {
  const files: StoredFile[] = []
  let token: Record<string, string> = {}
  for (;;) {
    const query = { 'list-type': '2', prefix: `${folder}coffer-`, ...token }
    const { text } = await client.send({ method: 'GET', query })
    for (const element of elementsIn(text, 'Contents')) {
      const name = unescapeXml(tagIn(element, 'Key') ?? '').slice(folder.length)
      const at = backupTime(markedBackup(name) ?? name)
      if (at !== undefined) files.push({ name, bytes: Number(tagIn(element, 'Size')), at })
    }
    const next = tagIn(text, 'NextContinuationToken')
    if (tagIn(text, 'IsTruncated') !== 'true' || !next) return files.sort(byAge)
    token = { 'continuation-token': unescapeXml(next) }
  }
}

/** A connection that is cut off goes on where it stopped. */
async function downloadFile(client: S3Client, key: string, file: string, options: TransferOptions): Promise<void> {
  const { onProgress, signal } = options
  const head = await client.send({ method: 'HEAD', key, expected: ['NotFound'], signal })
  if (head.refusal !== undefined) throw new TargetError(`The backup target ${client.name} has no ${key}.`)
  const total = Number(head.headers['content-length'])
  const tag = head.headers.etag
  await writeDurably(file, async (handle) => {
    let done = 0
    // Of the same object only: somebody may have replaced it.
    const headers = () => ({ range: `bytes=${done}-`, ...(tag !== undefined && { 'if-match': tag }) })
    const save = async (body: AsyncIterable<Buffer>, status: number) => {
      const isPart = status === 206
      if (!isPart) done = 0
      for await (const chunk of body) {
        await handle.write(chunk, 0, chunk.length, done)
        done += chunk.length
        onProgress?.(done, total)
      }
    }
    while (done < total) {
      const before = done
      // As long as each try brings something, the next one may bring the rest.
      await client.send({ method: 'GET', key, headers, save, maxBytes: total, signal }).catch((error: unknown) => {
        if (!(error instanceof TargetError) || done === before) throw error
      })
      if (done === before) throw new TargetError(`The backup target ${client.name} sent nothing of ${key}.`)
    }
  })
}
