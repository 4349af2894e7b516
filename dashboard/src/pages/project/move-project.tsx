import type { Project } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { administersTeam } from '../../api/right.ts'
import { useRights } from '../../api/use-rights.ts'
import { projectQuery, teamsQuery } from '../../api/workspace.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { SelectField } from '../../parts/field.tsx'
import { Section } from '../../parts/page.tsx'
import { say } from '../../parts/toast.tsx'

/** Offered only if there is another team to move to. */
export function MoveProject({ ws, project }: { readonly ws: string; readonly project: Project }) {
  const rights = useRights()
  const { data: teams = [] } = useQuery(teamsQuery(ws))
  const [teamId, setTeamId] = useState(project.teamId)
  const { run, isBusy, error } = useAction(async () => {
    await api.project.update({ ws, prj: project.id }, { teamId })
    await queryClient.invalidateQueries({ queryKey: projectQuery(ws, project.slug).queryKey })
    await queryClient.invalidateQueries({ queryKey: ['projects', ws] })
    await queryClient.invalidateQueries({ queryKey: teamsQuery(ws).queryKey })
    say('The project has moved.')
  })
  const targets = teams.filter(({ id }) => id === project.teamId || administersTeam(rights, id))
  if (targets.length < 2) return null

  function submit(event: FormEvent): void {
    event.preventDefault()
    void run()
  }

  return (
    <Section
      title="Team"
      hint="Members whose access is limited to one of the two teams gain or lose this project when it moves."
    >
      <form className="settings-row" onSubmit={submit}>
        <SelectField label="Team" value={teamId} onChange={({ target }) => setTeamId(target.value)}>
          {targets.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </SelectField>
        <Button type="submit" isBusy={isBusy} disabled={teamId === project.teamId}>
          Move
        </Button>
      </form>
      <ErrorNote error={error} />
    </Section>
  )
}
