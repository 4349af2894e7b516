/** Room on a disk that the service shares: a full one would stop it. */
import { statfs } from 'node:fs/promises'
import { TargetError } from './target/target.ts'

/** Left to the service. */
const reserveBytes = 128 * 1024 * 1024

/** `disk` and `use` are the subjects of the sentence. */
export async function requireRoom(folder: string, bytes: number, disk: string, use: string): Promise<void> {
  const { bavail, bsize } = await statfs(folder)
  const neededBytes = bytes + reserveBytes
  if (bavail * bsize >= neededBytes) return
  const [free, needed] = [bavail * bsize, neededBytes].map((count) => `${Math.round(count / 1024 / 1024)} MiB`)
  throw new TargetError(`${disk} has ${free} free, and ${use} needs ${needed}: make room.`)
}
