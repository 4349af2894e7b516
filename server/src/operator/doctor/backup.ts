import { backupFindings, placeFinding } from '../../domain/backup/finding.ts'
import type { Services } from '../../domain/context.ts'
import type { Check } from './finding.ts'

export function backupChecks(services: Services): Check[] {
  return [
    {
      name: 'backup',
      why: 'Nobody can tell whether there is a backup to restore.',
      fix: 'run the check again once the store answers.',
      run: () => backupFindings(services),
    },
    {
      name: 'backup place',
      why: 'The next backup may fail.',
      fix: 'correct COFFER_BACKUP_TO.',
      run: async () => (await placeFinding(services)) ?? [],
    },
  ]
}
