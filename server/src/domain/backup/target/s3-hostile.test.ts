/** A bucket is a stranger's: nothing that it answers is followed for ever, held in memory or written without a limit. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { openTestTarget, someName, stagedFile, tempFolder } from '../../../../../test/backup-target.ts'
import { drip, endless, endlessList, gigabytes, unendedList } from '../../../../../test/hostile-bucket.ts'
import { type S3Answer, type S3Seen, type S3Server, startS3 } from '../../../../../test/s3-server.ts'
import { TargetError } from './target.ts'

let s3: S3Server
beforeEach(async () => {
  s3 = await startS3()
})
afterEach(() => s3.close())

const key = `coffer/prod/${someName}`
const open = () => openTestTarget('s3://backups/coffer/prod', s3.settings)
const threeParts = 17 * 1024 * 1024
const twist = (operation: string, answer: (honest: S3Answer) => S3Answer) => {
  s3.twist = (seen: S3Seen, honest) => (seen.operation === operation ? answer(honest) : honest)
}

test.each([
  ['begins entries and ends none', () => unendedList('Contents'), /a list that is cut off/],
  ['has no end', () => ({ status: 200, body: '<ListBucketResult><IsTruncated>false' }), /a list that is cut off/],
  ['goes on with new positions', endlessList('ListBucketResult'), /a list that has more than 100 pages/],
  ['goes on with one position', endlessList('ListBucketResult', 'same'), /a list that repeats itself/],
  [
    'has two thousand entries on a page',
    () => ({ status: 200, body: `<ListBucketResult>${'<Contents></Contents>'.repeat(2_000)}</ListBucketResult>` }),
    /a list that has more than 1000 entries on a page/,
  ],
  ['is larger than any page', endless, /is larger than 1048576 bytes/],
])('a list that %s is refused', async (_what, answer, message) => {
  const target = await open()
  twist('ListObjectsV2', answer)
  await expect(target.list()).rejects.toThrow(message)
  await expect(target.list()).rejects.toThrow(TargetError)
})

test.each([
  ['ListMultipartUploads', 'ListMultipartUploadsResult'],
  ['ListParts', 'ListPartsResult'],
])('an upload is given up if %s goes on for ever', async (operation, root) => {
  const { path } = await stagedFile(await tempFolder(), threeParts)
  const target = await open()
  for (const position of [undefined, 'same']) {
    twist(operation, endlessList(root, position))
    await expect(target.put(someName, path)).rejects.toThrow(
      /sent a list that (has more than 100 pages|repeats itself)/,
    )
  }
  expect(s3.objects.size).toBe(0)
})

test('a file that is larger than its list says is read neither as text nor to the disk', async () => {
  const folder = await tempFolder()
  const { path } = await stagedFile(folder, 200)
  const target = await open()
  await target.put(someName, path)
  const back = join(folder, 'back')
  twist('HeadObject', (honest) => ({
    ...honest,
    headers: { ...honest.headers, 'content-length': String(40 * gigabytes) },
  }))
  await expect(target.download(someName, back, 200)).rejects.toThrow(/lists another size than it sends of/)
  twist('GetObject', () => endless())
  await expect(target.download(someName, back, 200)).rejects.toThrow(TargetError)
  await expect(target.read(someName, 4_096)).rejects.toThrow(/is larger than 4096 bytes/)
  // A HEAD without a length is no file of no bytes.
  twist('HeadObject', (honest) => ({ ...honest, headers: { 'content-length': '' } }))
  await expect(target.download(someName, back, 200)).rejects.toThrow(TargetError)
  expect(endless.sent).toBeLessThan(20 * 1024 * 1024)
  expect(await readdir(folder)).toEqual(['staged'])
})

test('a file that comes byte by byte, a connection each, is given up', async () => {
  const folder = await tempFolder()
  const { path } = await stagedFile(folder, 5_000)
  const target = await open()
  await target.put(someName, path)
  s3.seen.length = 0
  twist('GetObject', (honest) => ({
    ...honest,
    body: Buffer.isBuffer(honest.body) ? honest.body.subarray(0, 1) : '',
  }))
  await expect(target.download(someName, join(folder, 'back'), 5_000)).rejects.toThrow(/was cut off too often/)
  expect(s3.seen.length).toBeLessThan(1_100)
})

test('a transfer that never stands still and never ends has its time', async () => {
  const folder = await tempFolder()
  const { path } = await stagedFile(folder, 100_000)
  const target = await open()
  await target.put(someName, path)
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    twist('GetObject', () => drip(100_000))
    let [arrived, isOver] = [0, false]
    const onProgress = () => void arrived++
    const failed = expect(target.download(someName, join(folder, 'back'), 100_000, { onProgress }))
      .rejects.toThrow('The backup target s3://backups/coffer/prod was too slow: it had 60 minutes.')
      .finally(() => {
        isOver = true
      })
    while (!isOver) {
      const before = arrived
      while (arrived === before && !isOver) await turn()
      // Shorter than the time without progress after which a request ends.
      vi.advanceTimersByTime(15_000)
    }
    await failed
  } finally {
    vi.useRealTimers()
  }
  expect(await readdir(folder)).toEqual(['staged'])
})

test('a signal of the caller reaches every call', async () => {
  const target = await open()
  s3.fault = () => 'hang'
  const calls = [
    (signal: AbortSignal) => target.list({ signal }),
    (signal: AbortSignal) => target.findBytes(someName, { signal }),
    (signal: AbortSignal) => target.read(someName, 10, { signal }),
    (signal: AbortSignal) => target.download(someName, 'never', 10, { signal }),
    (signal: AbortSignal) => target.remove(someName, { signal }),
    (signal: AbortSignal) => target.dropUnfinished(0, new Set(), { signal }),
  ]
  for (const call of calls) {
    const stop = new AbortController()
    const reason = new Error('the lease is lost')
    const ended = expect(call(stop.signal)).rejects.toBe(reason)
    stop.abort(reason)
    await ended
  }
  expect(key).toContain(someName)
})
