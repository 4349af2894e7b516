/** Backups in a bucket, against a strict S3 service: signed, checked by checksums, and resumed after every fault. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openTestTarget, someName, stagedFile, tempFolder } from '../../../../../test/backup-target.ts'
import { type S3Fault, type S3Seen, type S3Server, startS3 } from '../../../../../test/s3-server.ts'
import { TargetError } from './target.ts'

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
const open = (settings: Record<string, string> = {}) => openTestTarget(place, { ...s3.settings, ...settings })
/** Three parts, the last one small. */
const threeParts = 17 * 1024 * 1024
const count = (operation: string) => s3.seen.filter((seen) => seen.operation === operation).length

test('a small file is stored by one request, and comes back as it was', async () => {
  const folder = await tempFolder()
  const { path, content } = await stagedFile(folder, 100_000)
  const target = await open()
  await target.put(someName, path)
  expect(s3.seen.map(({ operation }) => operation)).toEqual(['HeadObject', 'PutObject', 'HeadObject'])
  expect(await target.list()).toEqual([{ name: someName, bytes: 100_000, at: Date.UTC(2026, 10, 17, 18, 32) }])
  await target.download(someName, join(folder, 'back'), 100_000)
  expect((await readFile(join(folder, 'back'))).equals(content)).toBe(true)
  await target.remove(someName)
  await target.remove(someName)
  expect(await target.list()).toEqual([])
  await expect(target.download(someName, join(folder, 'none'), 100_000)).rejects.toThrow(TargetError)
})

test('a large file goes in parts, and a second put of it sends nothing', async () => {
  const folder = await tempFolder()
  const { path, content } = await stagedFile(folder, threeParts)
  const target = await open()
  const progress: number[] = []
  await target.put(someName, path, { onProgress: (done) => progress.push(done) })
  expect(s3.objects.get(key)?.body.equals(content)).toBe(true)
  expect([count('UploadPart'), count('CompleteMultipartUpload'), progress.at(-1)]).toEqual([3, 1, threeParts])
  await target.put(someName, path)
  expect(count('UploadPart')).toBe(3)
  await target.download(someName, join(folder, 'back'), threeParts)
  expect((await readFile(join(folder, 'back'))).equals(content)).toBe(true)
})

function once(operation: string, partNumber: number, fault: S3Fault) {
  let isDue = true
  return (seen: S3Seen) => {
    if (!isDue || seen.operation !== operation || seen.partNumber !== partNumber) return undefined
    isDue = false
    return fault
  }
}

test('an error that comes with status 200 when the parts are joined is an error', async () => {
  const { path, content } = await stagedFile(await tempFolder(), threeParts)
  const target = await open()
  s3.fault = once('CompleteMultipartUpload', 0, 'errorIn200')
  await target.put(someName, path)
  expect(s3.objects.get(key)?.body.equals(content)).toBe(true)
  s3.objects.clear()
  s3.fault = ({ operation }) => (operation === 'CompleteMultipartUpload' ? 'errorIn200' : undefined)
  await expect(target.put(someName, path)).rejects.toThrow(/answered 200 InternalError/)
})

test('an upload that was given up goes on where it stopped, and parts that arrived damaged are sent again', async () => {
  const { path, content } = await stagedFile(await tempFolder(), threeParts)
  const target = await open()
  s3.fault = ({ partNumber }) => (partNumber === 3 ? 'slowDown' : undefined)
  await expect(target.put(someName, path)).rejects.toThrow(/answered 503 SlowDown/)
  expect(s3.objects.size).toBe(0)
  const [upload] = s3.uploads.values()
  upload?.parts.set(1, { body: Buffer.alloc(8 * 1024 * 1024), tag: '"0"' })
  s3.fault = () => undefined
  s3.seen.length = 0
  s3.pageSize = 1
  await target.put(someName, path)
  expect(s3.seen.filter(({ partNumber }) => partNumber > 0).map(({ partNumber }) => partNumber)).toEqual([1, 3])
  expect(s3.objects.get(key)?.body.equals(content)).toBe(true)
  expect(s3.uploads.size).toBe(0)
})

test('a download that is cut off goes on where it stopped', async () => {
  const folder = await tempFolder()
  const { path, content } = await stagedFile(folder, threeParts)
  const target = await open()
  await target.put(someName, path)
  let cuts = 0
  s3.fault = ({ operation }) => (operation === 'GetObject' && ++cuts <= 12 ? 'cutBody' : undefined)
  await target.download(someName, join(folder, 'back'), threeParts)
  expect(cuts).toBe(13)
  expect((await readFile(join(folder, 'back'))).equals(content)).toBe(true)
})

test('lists have pages, and foreign objects are left out', async () => {
  const { path } = await stagedFile(await tempFolder(), 10)
  const target = await open()
  const names = ['a', 'b', 'c', 'd', 'e'].map((letter) => `coffer-20261117T183200Z-${letter.repeat(6)}.backup`)
  for (const name of [...names, `${names[0]}.verified`]) await target.put(name, path)
  const foreign = { body: Buffer.from('x'), tag: '"x"' }
  for (const other of ['coffer-x.backup', 'notes', `deeper/${someName}`])
    s3.objects.set(`coffer/prod/${other}`, foreign)
  s3.objects.set(`elsewhere/${someName}`, foreign)
  s3.pageSize = 2
  expect((await target.list()).map(({ name }) => name)).toEqual([names[0], `${names[0]}.verified`, ...names.slice(1)])
})

test('an old upload of a backup that is staged nowhere is dropped, others are not', async () => {
  const { path } = await stagedFile(await tempFolder(), 10)
  const target = await open()
  await target.put(someName, path)
  const day = 86_400_000
  const begin = (id: string, name: string, at: number) =>
    s3.uploads.set(id, { key: name, initiated: new Date(at).toISOString(), parts: new Map() })
  begin('old', key, Date.now() - 2 * day)
  begin('old-2', `${key}.verified`, Date.now() - 2 * day)
  begin('new', key, Date.now())
  begin('foreign', 'coffer/prod/film.mkv', 0)
  await target.dropUnfinished(Date.now() - day, new Set([someName]))
  expect([...s3.uploads.keys()]).toEqual(['old', 'new', 'foreign'])
  await target.dropUnfinished(Date.now() - day, new Set())
  expect([...s3.uploads.keys()]).toEqual(['new', 'foreign'])
})

test.each([
  ['AWS_ACCESS_KEY_ID', 'AKIAWRONG', /AWS_ACCESS_KEY_ID is not known/],
  ['AWS_SECRET_ACCESS_KEY', 'very-wrong-secret', /AWS_SECRET_ACCESS_KEY is wrong/],
  ['AWS_REGION', 'us-east-1', /AWS_REGION is not the region/],
  ['AWS_ENDPOINT_URL_S3', 'http://127.0.0.1:1', /could not be reached/],
])('a wrong %s is explained in one sentence without the secret', async (name, value, message) => {
  const target = await open({ [name]: value })
  const error: unknown = await target.list().catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(TargetError)
  expect(String(error)).toMatch(message)
  expect(String(error)).not.toMatch(/very-wrong-secret|test\+secret/)
})

test('the signal of the caller ends an upload, which can go on later', async () => {
  const { path, content } = await stagedFile(await tempFolder(), threeParts)
  const target = await open()
  const stop = new AbortController()
  const put = target.put(someName, path, { signal: stop.signal, onProgress: () => stop.abort() })
  await expect(put).rejects.toThrow()
  expect(s3.uploads.size).toBe(1)
  await target.put(someName, path)
  expect(count('UploadPart')).toBe(3)
  expect(s3.objects.get(key)?.body.equals(content)).toBe(true)
})
