/** Backup targets on a folder or a bucket of a test, and files to put there. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { readConfig } from '../server/src/config.ts'
import { openTarget } from '../server/src/domain/backup/target/open.ts'
import type { BackupTarget } from '../server/src/domain/backup/target/target.ts'
import { createOutbound } from '../server/src/outbound.ts'
import { parseAllowList } from '../server/src/outbound-allow.ts'

/** Retries come without a pause. */
export function openTestTarget(text: string, settings: Record<string, string> = {}): Promise<BackupTarget> {
  const outbound = createOutbound({ allow: parseAllowList('') })
  return openTarget({ config: readConfig(settings), outbound, now: Date.now, sleep: async () => undefined }, text)
}

export async function tempFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'coffer-target-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** A staged file of random content. */
export async function stagedFile(folder: string, bytes: number): Promise<{ path: string; content: Buffer }> {
  const content = randomBytes(bytes)
  const path = join(folder, 'staged')
  await writeFile(path, content)
  return { path, content }
}

export const someName = 'coffer-20261117T183200Z-abc123.backup'
