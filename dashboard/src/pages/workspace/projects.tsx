import type { TeamGroup } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { administersTeam } from '../../api/right.ts'
import { useRights } from '../../api/use-rights.ts'
import { projectsQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { TextField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { EmptyState, Page, Skeleton } from '../../parts/page.tsx'
import { Table } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { FoundSecrets } from './found-secrets.tsx'
import { FirstProject, NewProject } from './new-project.tsx'
import './projects.css'
import { NewTeam, TeamMenu } from './team.tsx'

const route = getRouteApi('/signed-in/$ws/')

export function Projects() {
  const { ws } = route.useParams()
  const { q = '' } = route.useSearch()
  const navigate = route.useNavigate()
  const rights = useRights()
  const { data: teams, error } = useQuery(projectsQuery(ws))
  const [dialog, setDialog] = useState<'project' | 'team'>()
  const sought = q.trim()
  const ownTeams = teams?.filter(({ id }) => administersTeam(rights, id)) ?? []
  const hasProjects = teams?.some(({ projects }) => projects.length > 0) ?? false
  const isGrouped = hasProjects || (teams?.length ?? 0) > 1
  const create = ownTeams.length > 0 && hasProjects && (
    <Button kind="primary" onClick={() => setDialog('project')}>
      New project
    </Button>
  )
  return (
    <Page title="Projects" actions={create}>
      {hasProjects && (
        <search className="project-search">
          <TextField
            label="Find a secret by name"
            isLabelHidden
            type="search"
            placeholder="Find a secret by name in all projects"
            value={q}
            onChange={({ target }) =>
              navigate({ search: target.value ? { q: target.value } : {}, replace: true, resetScroll: false })
            }
          />
        </search>
      )}
      <ErrorNote error={error} />
      {!teams && !error && <Skeleton />}
      {teams && sought !== '' && <FoundSecrets ws={ws} q={sought} />}
      {teams && sought === '' && !hasProjects && ownTeams.length > 0 && <FirstProject ws={ws} teams={ownTeams} />}
      {teams && sought === '' && !hasProjects && ownTeams.length === 0 && (
        <EmptyState title="No projects here yet">
          <p>Once an admin creates a project or gives you access to one, it appears here.</p>
        </EmptyState>
      )}
      {sought === '' && isGrouped && teams?.map((team) => <TeamProjects key={team.id} ws={ws} team={team} />)}
      {sought === '' && rights.canManageWorkspace && teams && (
        <Button kind="quiet" className="self-start -ml-3" onClick={() => setDialog('team')}>
          <Icon name="plus" />
          New team
        </Button>
      )}
      {dialog === 'project' && <NewProject ws={ws} teams={ownTeams} onClose={() => setDialog(undefined)} />}
      {dialog === 'team' && <NewTeam ws={ws} onClose={() => setDialog(undefined)} />}
    </Page>
  )
}

function TeamProjects({ ws, team }: { readonly ws: string; readonly team: TeamGroup }) {
  const rights = useRights()
  return (
    <section className="team-projects">
      <div className="section-head">
        <h2>{team.name}</h2>
        {administersTeam(rights, team.id) && <TeamMenu ws={ws} team={team} />}
      </div>
      {team.projects.length === 0 ? (
        <p className="text-soft">No projects in this team.</p>
      ) : (
        <Table label={`Projects of ${team.name}`} columns={['Name', 'Slug', 'Secrets', 'Environments', 'Updated']}>
          {team.projects.map(({ id, name, slug, secrets, environments, updatedAt }) => (
            <tr key={id}>
              <th scope="row">
                <Link className="row-link" to="/$ws/$prj" params={{ ws, prj: slug }}>
                  {name}
                </Link>
              </th>
              <td>
                <code>{slug}</code>
              </td>
              <td>{secrets.toLocaleString('en')}</td>
              <td>{environments}</td>
              <td className="whitespace-nowrap text-soft">
                <Time at={updatedAt} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  )
}
