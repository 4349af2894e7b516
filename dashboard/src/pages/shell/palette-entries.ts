/** Places to go to, by name, as far as a person may see them. */
import type { FoundSecret, ProjectSummary, TeamGroup, Workspace } from '@coffer/sdk'
import { projectRightsIn, rightsIn } from '../../api/right.ts'
import { workspaceAddress } from '../../api/workspace.ts'

export type Entry = {
  /** The address. */
  readonly value: string
  /** The text that is sought in. */
  readonly label: string
  readonly hint?: string
}

export type EntryGroup = { readonly value: string; readonly items: readonly Entry[] }

export const secretEntries = (ws: string, found: readonly FoundSecret[]): EntryGroup => ({
  value: 'Secrets',
  items: found.map(({ name, project }) => ({
    value: `/${ws}/${project.slug}?key=${encodeURIComponent(name)}`,
    label: name,
    hint: project.name,
  })),
})

export const projectEntries = (ws: string, teams: readonly TeamGroup[]): EntryGroup => ({
  value: 'Projects',
  items: teams.flatMap((team) =>
    team.projects.map(({ name, slug }) => ({ value: `/${ws}/${slug}`, label: name, hint: team.name })),
  ),
})

export const workspaceEntries = (workspaces: readonly Workspace[]): EntryGroup => ({
  value: 'Workspaces',
  items: workspaces.map((workspace) => {
    const address = workspaceAddress(workspace)
    return { value: `/${address}`, label: workspace.name, hint: address }
  }),
})

export function projectPages(
  prj: string,
  ws: string,
  workspace: Workspace,
  teams: readonly TeamGroup[],
): EntryGroup | undefined {
  const team = teams.find(({ projects }) => projects.some((project) => isNamed(project, prj)))
  const project = team?.projects.find((one) => isNamed(one, prj))
  if (!team || !project) return undefined
  const parts = { id: project.id, teamId: team.id, environments: project.environmentList }
  const { canWrite, canAdminister } = projectRightsIn(workspace, parts)
  const place = `/${ws}/${prj}`
  const items = [
    { value: `${place}/compare`, label: 'Compare' },
    { value: `${place}/history`, label: 'History' },
    canAdminister && { value: `${place}/syncs`, label: 'Syncs' },
    canWrite && { value: `${place}/shares`, label: 'Shares' },
    { value: `${place}/trash`, label: 'Trash' },
    canAdminister && { value: `${place}/settings`, label: 'Settings of the project' },
  ]
  return { value: 'This project', items: items.filter((item) => item !== false) }
}

const isNamed = ({ slug, id }: ProjectSummary, prj: string) => slug === prj || id === prj

export function pages(ws: string, workspace: Workspace | undefined): EntryGroup {
  const isManager = workspace !== undefined && rightsIn(workspace).canManageWorkspace
  const place = `/${ws}/-`
  const items = [
    workspace !== undefined && { value: `/${ws}`, label: 'All projects', hint: 'g p' },
    isManager && { value: `${place}/access/members`, label: 'Members' },
    workspace !== undefined && { value: `${place}/access/tokens`, label: 'Tokens', hint: 'g t' },
    isManager && { value: `${place}/access/service-accounts`, label: 'Service accounts' },
    isManager && { value: `${place}/access/identities`, label: 'Identities' },
    isManager && { value: `${place}/access/who`, label: 'Who can…?' },
    isManager && { value: `${place}/audit`, label: 'Audit', hint: 'g a' },
    isManager && { value: `${place}/settings`, label: 'Settings of the workspace', hint: 'g s' },
    { value: '/me', label: 'Your account' },
    { value: '/?all=true', label: 'All workspaces' },
  ]
  return { value: 'Pages', items: items.filter((item) => item !== false) }
}
