import { EmptyState } from '../../parts/page.tsx'
import { ProjectPage } from '../shell/project-page.tsx'

export function AdminsOnly() {
  return (
    <ProjectPage>
      <EmptyState title="Syncs are for admins">
        <p>Ask an admin of this project if secrets should be pushed to another system.</p>
      </EmptyState>
    </ProjectPage>
  )
}
