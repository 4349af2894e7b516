import type { Services } from '../domain/context.ts'

/** Makes a backup if one is due. Loaded on demand, so that an installation without backups saves the memory. */
export async function backUp(services: Services, signal: AbortSignal): Promise<void> {
  const { to } = services.config.backup
  if (to === undefined) return
  const { runDueBackup } = await import('../domain/backup/run.ts')
  await runDueBackup(services, to, signal)
}
