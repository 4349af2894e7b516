/** An upload in parts meets every fault at every request, and is killed at every stage: nothing is lost or sent twice. */
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openTestTarget, someName, stagedFile, tempFolder } from '../../../../../test/backup-target.ts'
import { startNode } from '../../../../../test/program.ts'
import { type S3Fault, type S3Seen, type S3Server, startS3 } from '../../../../../test/s3-server.ts'

let s3: S3Server
beforeEach(async () => {
  s3 = await startS3()
})
afterEach(async () => {
  expect(s3.violations).toEqual([])
  await s3.close()
})

const place = 's3://backups/coffer/prod'
const key = `coffer/prod/${someName}`
const open = () => openTestTarget(place, s3.settings)
/** Three parts, the last one small. */
const threeParts = 17 * 1024 * 1024

/** Every request of an upload in turn; the fault happens once. */
const stages: [operation: string, partNumber: number][] = [
  ['HeadObject', 0],
  ['ListMultipartUploads', 0],
  ['CreateMultipartUpload', 0],
  ['ListParts', 0],
  ['UploadPart', 1],
  ['UploadPart', 3],
  ['CompleteMultipartUpload', 0],
]
const faults: readonly S3Fault[] = ['cut', 'lostAnswer', 'internalError', 'slowDown']

test.each(stages)('a fault of %s (part %i) is outlived by retries', async (operation, partNumber) => {
  const { path, content } = await stagedFile(await tempFolder(), threeParts)
  const target = await open()
  for (const fault of faults) {
    s3.objects.clear()
    s3.fault = once(operation, partNumber, fault)
    await target.put(someName, path)
    expect(s3.objects.get(key)?.body.equals(content), fault).toBe(true)
  }
})

function once(operation: string, partNumber: number, fault: S3Fault) {
  let isDue = true
  return (seen: S3Seen) => {
    if (!isDue || seen.operation !== operation || seen.partNumber !== partNumber) return undefined
    isDue = false
    return fault
  }
}

test.each([
  ['CreateMultipartUpload', 0, []],
  ['UploadPart', 2, [1]],
  ['UploadPart', 3, [1, 2]],
  ['CompleteMultipartUpload', 0, [1, 2, 3]],
])('a process killed at %s (part %i) leaves an upload that the next one finishes', async (operation, part, kept) => {
  const { path, content } = await stagedFile(await tempFolder(), threeParts)
  const reached = Promise.withResolvers<void>()
  s3.fault = (seen) => {
    if (seen.operation !== operation || seen.partNumber !== part) return undefined
    reached.resolve()
    return 'hang'
  }
  const program = startNode(
    [join(import.meta.dirname, '../../../../../test/put-backup.ts'), place, someName, path],
    s3.settings,
  )
  await reached.promise
  program.kill('SIGKILL')
  await program.ended
  expect(s3.objects.size).toBe(0)
  s3.fault = () => undefined
  s3.seen.length = 0
  await (await open()).put(someName, path)
  expect(s3.objects.get(key)?.body.equals(content)).toBe(true)
  const sent = s3.seen.filter(({ partNumber }) => partNumber > 0).map(({ partNumber }) => partNumber)
  expect(sent).toEqual([1, 2, 3].filter((number) => !kept.some((one) => one === number)))
})
