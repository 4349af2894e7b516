import { type BackupPlace, PlaceError, parseBackupPlace } from '../../../backup-setting.ts'
import type { Services } from '../../context.ts'
import { openFolder } from './folder.ts'
import { type BackupTarget, TargetError } from './target.ts'

type TargetContext = Pick<Services, 'config' | 'outbound' | 'now' | 'sleep'>

/** `text` is a folder or `s3://bucket/prefix`, as somebody typed it. */
export async function openTarget(ctx: TargetContext, text: string): Promise<BackupTarget> {
  return openPlace(ctx, readPlace(text))
}

export async function openPlace(ctx: TargetContext, place: BackupPlace): Promise<BackupTarget> {
  if (place.kind === 'folder') return openFolder(place.path)
  // Loaded on demand: most installations keep their backups in a folder.
  const { openBucket } = await import('./s3.ts')
  return openBucket(ctx, place)
}

function readPlace(text: string): BackupPlace {
  try {
    return parseBackupPlace(text)
  } catch (error) {
    throw error instanceof PlaceError ? new TargetError(`The target ${error.message}`) : error
  }
}
