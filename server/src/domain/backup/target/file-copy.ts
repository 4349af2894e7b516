/** Writes a file durably: it has its name only once it is complete, and only its owner may read it. */
import { createReadStream } from 'node:fs'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { syncFolder } from '../file.ts'
import type { TransferOptions } from './target.ts'

export const unfinishedSuffix = '.part'
const chunkBytes = 1024 * 1024

export async function copyDurably(from: string, to: string, options: TransferOptions = {}): Promise<void> {
  const { onProgress, signal } = options
  const source = await open(from)
  try {
    const { size } = await source.stat()
    let done = 0
    await writeDurably(to, async (file) => {
      for await (const chunk of createReadStream('', { fd: source, autoClose: false, highWaterMark: chunkBytes })) {
        signal?.throwIfAborted()
        await file.writeFile(chunk)
        done += chunk.length
        onProgress?.(done, size)
      }
    })
  } finally {
    await source.close()
  }
}

/** A file that could not be completed is removed, or it would keep a full disk full; a kill leaves its unfinished name. */
export async function writeDurably(to: string, write: (file: FileHandle) => Promise<void>): Promise<void> {
  const unfinished = `${to}${unfinishedSuffix}`
  const file = await open(unfinished, 'w', 0o600)
  try {
    await file.chmod(0o600)
    await write(file)
    await file.sync()
  } catch (error) {
    await rm(unfinished, { force: true }).catch(() => undefined)
    throw error
  } finally {
    await file.close()
  }
  await rename(unfinished, to)
  await syncFolder(dirname(to))
}
