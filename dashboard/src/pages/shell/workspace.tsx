import { ApiError } from '@coffer/sdk'
import { useQuery, useSuspenseQuery } from '@tanstack/react-query'
import { getRouteApi, Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { findWorkspace, rightsIn } from '../../api/right.ts'
import { projectsQuery, workspaceAddress, workspacesQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Menu } from '../../parts/menu.tsx'
import { PageMissing, ShutOutPage } from '../failed.tsx'
import { BackupBanner } from './backup-banner.tsx'
import { PersonMenu } from './person-menu.tsx'
import './shell.css'
import { useOpenPalette } from './shortcuts.tsx'

const route = getRouteApi('/signed-in/$ws')

/** The sidebar with workspaces and projects beside every page of a workspace. */
export function WorkspaceFrame() {
  const { ws } = route.useParams()
  const { data: workspaces } = useSuspenseQuery(workspacesQuery)
  const path = useLocation({ select: ({ pathname }) => pathname })
  const [isOpen, setOpen] = useState(false)
  // biome-ignore lint/correctness/useExhaustiveDependencies: on a phone the sidebar closes after each step
  useEffect(() => setOpen(false), [path])
  const workspace = findWorkspace(workspaces, ws)
  const projects = useQuery({ ...projectsQuery(ws), enabled: workspace !== undefined })
  // A member may always list projects: only the policy of the workspace refuses that. Whoever was inside before keeps the
  // page, with the edits in it.
  const { error } = projects
  const refusal = error instanceof ApiError && error.status === 403 && !projects.data ? error : undefined
  if (!workspace) return <PageMissing />
  const canManageWorkspace = !refusal && rightsIn(workspace).canManageWorkspace
  return (
    <div className="shell">
      <div className="shell-bar">
        <Button kind="quiet" aria-expanded={isOpen} aria-controls="side" onClick={() => setOpen(!isOpen)}>
          <Icon name="menu" />
          {workspace.name}
        </Button>
      </div>
      <nav id="side" className={isOpen ? 'side open' : 'side'} aria-label="Workspace">
        <WorkspaceMenu name={workspace.name} />
        <PaletteButton />
        {refusal ? <div className="side-projects" /> : <ProjectLinks ws={ws} />}
        <div className="side-foot">
          {!refusal && (
            <Link
              to={canManageWorkspace ? '/$ws/-/access/members' : '/$ws/-/access/tokens'}
              params={{ ws }}
              className={path.includes('/-/access/') ? 'on' : ''}
            >
              Access
            </Link>
          )}
          {canManageWorkspace && (
            <>
              <Link to="/$ws/-/audit" params={{ ws }}>
                Audit
              </Link>
              <Link to="/$ws/-/settings" params={{ ws }}>
                Settings
              </Link>
            </>
          )}
          <PersonMenu />
        </div>
      </nav>
      <main className="shell-main">
        {canManageWorkspace && <BackupBanner />}
        {refusal ? <ShutOutPage workspace={workspace.name} refusal={refusal} onRetry={projects.refetch} /> : <Outlet />}
      </main>
    </div>
  )
}

function WorkspaceMenu({ name }: { readonly name: string }) {
  const navigate = useNavigate()
  const { data: workspaces } = useSuspenseQuery(workspacesQuery)
  const entries = workspaces.map((workspace) => ({
    text: workspace.name,
    onSelect: () => void navigate({ to: '/$ws', params: { ws: workspaceAddress(workspace) } }),
  }))
  const all = { text: 'All workspaces', onSelect: () => void navigate({ to: '/', search: { all: true } }) }
  const trigger = (
    <>
      <Icon name="coffer" />
      <span className="truncate">{name}</span>
      <Icon name="chevron" />
    </>
  )
  return <Menu className="place" trigger={trigger} groups={[entries, [all]]} />
}

function PaletteButton() {
  const openPalette = useOpenPalette()
  return (
    <button type="button" className="go-to" onClick={openPalette}>
      <Icon name="search" />
      Go to
      <kbd>Ctrl K</kbd>
    </button>
  )
}

function ProjectLinks({ ws }: { readonly ws: string }) {
  const { data: teams = [] } = useQuery(projectsQuery(ws))
  return (
    <div className="side-projects">
      <Link to="/$ws" params={{ ws }} activeOptions={{ exact: true, includeSearch: false }}>
        Projects
      </Link>
      {teams.map((team) => (
        <div key={team.id}>
          <p className="side-label">{team.name}</p>
          {team.projects.map(({ id, slug, name }) => (
            <Link key={id} to="/$ws/$prj" params={{ ws, prj: slug }}>
              <span className="truncate">{name}</span>
            </Link>
          ))}
        </div>
      ))}
    </div>
  )
}
