import type { AccessRow, Project } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { accessQuery } from '../../api/access.ts'
import { useRights } from '../../api/use-rights.ts'
import { projectQuery, projectsQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { download } from '../../parts/download.ts'
import { ErrorNote } from '../../parts/error-note.tsx'
import { SelectField, TextField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { EmptyState, Skeleton } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'
import { Table } from '../../parts/table.tsx'
import { AccessPage, ManagersOnly } from './access-page.tsx'
import { type ActorType, filterRows, rightAt, rightNames, toCsv } from './who/access-table.ts'
import { actorKind } from './who/actor-kind.ts'
import { type Asked, ExplanationDrawer } from './who/explanation-drawer.tsx'
import './who/who.css'

export function WhoCan() {
  const { canManageWorkspace } = useRights()
  return canManageWorkspace ? <ProjectAccess /> : <ManagersOnly what="access of others" place="in this workspace" />
}

const route = getRouteApi('/signed-in/$ws/-/access/who')

/** The project that the address names, or else the first. */
function ProjectAccess() {
  const { ws } = route.useParams()
  const { project: named } = route.useSearch()
  const navigate = useNavigate()
  const teams = useQuery(projectsQuery(ws))
  const projects = teams.data?.flatMap((team) => team.projects) ?? []
  const slug = (projects.find((project) => project.slug === named) ?? projects[0])?.slug
  const { data: project, error } = useQuery({ ...projectQuery(ws, slug ?? ''), enabled: slug !== undefined })
  const choice = (
    <SelectField
      label="Project"
      value={slug ?? ''}
      onChange={({ target }) =>
        void navigate({ to: '/$ws/-/access/who', params: { ws }, search: { project: target.value }, replace: true })
      }
    >
      {projects.map((one) => (
        <option key={one.id} value={one.slug}>
          {one.name}
        </option>
      ))}
    </SelectField>
  )
  if (project) return <AccessMatrix key={project.id} ws={ws} project={project} choice={choice} />
  return (
    <AccessPage>
      <ErrorNote error={teams.error ?? error} />
      {teams.data && slug === undefined ? (
        <EmptyState title="There is no project yet">
          <p>Once there is one, this page shows who can read and write its secrets.</p>
        </EmptyState>
      ) : (
        !teams.error && !error && <Skeleton />
      )}
    </AccessPage>
  )
}

const types = ['user', 'service', 'token', 'oidc'] as const
const typeNames = { user: 'People', service: 'Service accounts', token: 'Tokens', oidc: 'Identities' } as const

/** More rows are shown on demand: a table of thousands makes the page slow. */
const shownRows = 200

type MatrixProps = { readonly ws: string; readonly project: Project; readonly choice: React.ReactNode }

function AccessMatrix({ ws, project, choice }: MatrixProps) {
  const { data: rows, error } = useQuery(accessQuery(ws, project.slug))
  const [text, setText] = useState('')
  const [type, setType] = useState<ActorType>()
  const [limit, setLimit] = useState(shownRows)
  const [asked, setAsked] = useState<Asked>()
  const { environments } = project
  const found = rows && filterRows(rows, { text, type })
  const save = () => download(`access-${project.slug}.csv`, toCsv(found ?? [], environments), 'text/csv')
  const action = (
    <Button disabled={!found || found.length === 0} onClick={save}>
      <Icon name="download" />
      Export as CSV
    </Button>
  )
  return (
    <AccessPage actions={action}>
      <div className="who-tools">
        {choice}
        <SelectField
          label="Show"
          value={type ?? ''}
          onChange={({ target }) => setType(types.find((one) => one === target.value))}
        >
          <option value="">Everybody</option>
          {types.map((one) => (
            <option key={one} value={one}>
              {typeNames[one]}
            </option>
          ))}
        </SelectField>
        <TextField
          label="Filter by name"
          type="search"
          placeholder={rows ? `Filter ${plural(rows.length, 'line')}` : 'Filter'}
          value={text}
          onChange={({ target }) => setText(target.value)}
        />
      </div>
      <p className="hint">
        Each line is a person or a machine, with its right in each environment. Press a right to read why.
      </p>
      <ErrorNote error={error} />
      {!rows && !error && <Skeleton />}
      {found?.length === 0 && <p className="text-soft">Nobody fits this filter.</p>}
      {found && found.length > 0 && (
        <Table label={`Access to ${project.name}`} columns={['Who', ...environments.map(({ name }) => name)]}>
          {found.slice(0, limit).map((row) => (
            <ActorRow
              key={`${row.actor.type} ${row.actor.id}`}
              row={row}
              environments={environments}
              onAsk={(environment) =>
                setAsked({ actor: row.actor, project, environment, right: rightAt(row, environment.id) })
              }
            />
          ))}
        </Table>
      )}
      {found && found.length > limit && (
        <Button className="self-start" onClick={() => setLimit(limit + shownRows)}>
          {`Show more (${plural(found.length - limit, 'line')} left)`}
        </Button>
      )}
      {asked && <ExplanationDrawer ws={ws} asked={asked} onClose={() => setAsked(undefined)} />}
    </AccessPage>
  )
}

type ActorRowProps = {
  readonly row: AccessRow
  readonly environments: Project['environments']
  readonly onAsk: (environment: Project['environments'][number]) => void
}

function ActorRow({ row, environments, onAsk }: ActorRowProps) {
  const { actor, ownerName, isOwner, problem } = row
  const kind = ownerName === null ? actorKind[actor.type] : `${actorKind[actor.type]} of ${ownerName}`
  return (
    <tr>
      <th scope="row">
        {actor.name}
        <span className="hint font-normal">{isOwner && actor.type === 'user' ? 'owner of the workspace' : kind}</span>
        {problem !== null && <span className="who-problem">{problem}</span>}
      </th>
      {environments.map((environment) => {
        const right = rightAt(row, environment.id)
        return (
          <td key={environment.id}>
            <button
              type="button"
              className={`right ${right ?? 'none'}`}
              aria-label={`${right ? rightNames[right] : 'None'}: ${actor.name} in ${environment.name}`}
              onClick={() => onAsk(environment)}
            >
              {right ? rightNames[right] : 'none'}
            </button>
          </td>
        )
      })}
    </tr>
  )
}
