/** A backup that was changed anywhere is refused: flipped bits, cuts, and frames that are moved, repeated or foreign. */
import { randomInt } from 'node:crypto'
import { open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startService, type TestService } from '../../../test/harness.ts'
import { isDeep } from '../../../test/tier.ts'
import { openBackupFile } from '../domain/backup/file.ts'
import { readBackup, unlockBackup } from '../domain/backup/read.ts'
import { writeBackup } from '../domain/backup/write.ts'
import { Failure } from '../failure.ts'

let service: TestService
let bytes: Buffer
let foreign: Buffer
let damaged: string

beforeAll(async () => {
  service = await startService()
  damaged = join(service.dataDir, 'damaged.backup')
  const make = async (name: string) => {
    const file = join(service.dataDir, name)
    await writeBackup(service.app.services, file)
    return readFile(file)
  }
  bytes = await make('one.backup')
  foreign = await make('two.backup')
})
afterAll(() => service.stop())

/** The message of the refusal; undefined if the file is accepted. */
async function refusalOf(changed: Uint8Array): Promise<string | undefined> {
  await writeFile(damaged, changed)
  let file: Awaited<ReturnType<typeof openBackupFile>> | undefined
  try {
    file = await openBackupFile(damaged)
    await readBackup(file, unlockBackup(file, service.app.services.keys.master), 'check', {})
    return undefined
  } catch (error) {
    if (error instanceof Failure) return error.message
    throw error
  } finally {
    await file?.close()
  }
}

/** Where each frame begins, and the end. */
function framesOf(file: Buffer): number[] {
  const starts = [20 + file.readUInt32BE(16)]
  for (let at = starts[0] ?? 0; at < file.length; starts.push(at)) at += 5 + file.readUInt32BE(at + 1)
  return starts
}

/** Its kind and length. */
const headOf = (frame: number) => [frame, frame + 1, frame + 2, frame + 3, frame + 4]

function isFailure(error: unknown): true {
  if (error instanceof Failure) return true
  throw error
}

function flipped(at: number, bit: number): Buffer {
  const copy = Buffer.from(bytes)
  copy.writeUInt8(copy.readUInt8(at) ^ (1 << bit), at)
  return copy
}

test('the file as it was written is accepted', async () => {
  expect(await refusalOf(bytes)).toBeUndefined()
  expect(framesOf(bytes).at(-1)).toBe(bytes.length)
  expect(framesOf(bytes).length).toBeGreaterThan(40)
})

test('a flipped bit is found at every 40th byte of the file', async () => {
  const accepted: number[] = []
  for (let at = randomInt(40); at < bytes.length; at += 40) {
    if ((await refusalOf(flipped(at, at % 8))) === undefined) accepted.push(at)
  }
  expect(accepted).toEqual([])
})

test('every flipped bit of the header and of the heads of the first frames is found', async () => {
  const [start = 0] = framesOf(bytes)
  const header = Array.from({ length: isDeep ? start : 24 }, (_, at) => at)
  const heads = framesOf(bytes).slice(0, 3).flatMap(headOf)
  const accepted: string[] = []
  for (const at of [...header, ...heads]) {
    for (let bit = 0; bit < 8; bit++) {
      if ((await refusalOf(flipped(at, bit))) === undefined) accepted.push(`${at}.${bit}`)
    }
  }
  expect(accepted).toEqual([])
})

// A reader gets to the damaged frame, since those before it are whole: they need not be read for each bit.
if (isDeep) {
  test('a flipped bit is found at every byte of every frame, and every one of its head', async () => {
    const accepted: string[] = []
    let checked = 0
    await writeFile(damaged, bytes)
    const file = await openBackupFile(damaged)
    const key = unlockBackup(file, service.app.services.keys.master)
    const disk = await open(damaged, 'r+')
    const starts = framesOf(bytes)
    for (const [index, start] of starts.slice(0, -1).entries()) {
      const isFound = () => file.readFrame(key, index, start).then(() => false, isFailure)
      expect(await isFound(), `frame ${index} as it was written`).toBe(false)
      const heads = headOf(start).flatMap((at) => [0, 1, 2, 3, 4, 5, 6, 7].map((bit) => [at, bit] as const))
      const rest = Array.from({ length: (starts[index + 1] ?? 0) - start - 5 }, (_, at) => start + 5 + at)
      for (const [at, bit] of [...heads, ...rest.map((at) => [at, at % 8] as const)]) {
        await disk.write(flipped(at, bit), at, 1, at)
        if (!(await isFound())) accepted.push(`${at}.${bit}`)
        await disk.write(bytes, at, 1, at)
        checked++
      }
    }
    await disk.close()
    await file.close()
    expect(accepted).toEqual([])
    expect(checked).toBe(bytes.length - (starts[0] ?? 0) + (starts.length - 1) * 5 * 7)
    expect(await refusalOf(await readFile(damaged))).toBeUndefined()
  })
}

test('a cut at every frame, and within one, is found', async () => {
  for (const at of framesOf(bytes).slice(0, -1)) {
    expect(await refusalOf(bytes.subarray(0, at)), `${at}`).toContain('its end is missing')
    expect(await refusalOf(bytes.subarray(0, at + 3)), `${at} + 3`).toContain('its end is missing')
  }
  expect(await refusalOf(bytes.subarray(0, bytes.length - 1))).toContain('its end is missing')
  expect(await refusalOf(Buffer.alloc(0))).toContain('is not a backup')
})

test('data after the end is found', async () => {
  expect(await refusalOf(Buffer.concat([bytes, Buffer.alloc(1)]))).toContain('there is data after its end')
})

test('a frame that is missing, repeated, moved or of another backup is found', async () => {
  const starts = framesOf(bytes)
  const frame = (index: number, of = bytes) => of.subarray(framesOf(of)[index], framesOf(of)[index + 1])
  const before = (index: number) => bytes.subarray(0, starts[index])
  const after = (index: number) => bytes.subarray(starts[index])
  for (const index of [0, 5, starts.length - 3]) {
    const changed = {
      missing: [before(index), after(index + 1)],
      repeated: [before(index + 1), frame(index), after(index + 1)],
      moved: [before(index), frame(index + 1), frame(index), after(index + 2)],
      foreign: [before(index), frame(index, foreign), after(index + 1)],
    }
    for (const [what, pieces] of Object.entries(changed)) {
      expect(await refusalOf(Buffer.concat(pieces)), `${what} ${index}`).toMatch(/^The backup is damaged: /)
    }
  }
})
