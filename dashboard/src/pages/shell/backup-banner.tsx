import { useQuery } from '@tanstack/react-query'
import { backupWarningQuery } from '../../api/health.ts'
import { Note } from '../../parts/note.tsx'

/** For admins of the whole workspace: shown only while backups are late or fail. */
export function BackupBanner() {
  const { data: warning } = useQuery(backupWarningQuery)
  if (!warning) return null
  return (
    <div className="shell-banner" role="status">
      <Note tone="warn">{warning} Tell whoever runs this service.</Note>
    </div>
  )
}
