import { useQuery } from '@tanstack/react-query'
import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { useRights } from '../../api/use-rights.ts'
import { teamsQuery, workspaceAddress, workspacesQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { EmptyState, Page, Section, Skeleton } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'
import { Table } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { HandOver } from './hand-over.tsx'
import { NameForm } from './name-form.tsx'
import { PolicySection } from './policy/policy.tsx'
import { NewTeam, TeamMenu } from './team.tsx'

const route = getRouteApi('/signed-in/$ws/-/settings')

export function WorkspaceSettings() {
  const { ws } = route.useParams()
  const { canManageWorkspace, isOwner } = useRights()
  if (!canManageWorkspace) {
    return (
      <Page title="Settings">
        <EmptyState title="These settings are for admins">
          <p>Ask an admin of the whole workspace if something here should change.</p>
        </EmptyState>
      </Page>
    )
  }
  return (
    <Page title="Settings">
      <WorkspaceName ws={ws} />
      <Teams ws={ws} />
      {isOwner && <PolicySection ws={ws} />}
      {isOwner && <HandOver ws={ws} />}
      {isOwner && <DeleteWorkspace ws={ws} />}
    </Page>
  )
}

function WorkspaceName({ ws }: { readonly ws: string }) {
  const navigate = useNavigate()
  const { workspace } = useRights()
  return (
    <Section title="Name and address">
      <NameForm
        label="Name"
        before={workspace}
        address={(slug) => `${location.host}/${slug}`}
        warning="Addresses of all pages change, and every .coffer.json, pipeline and application that names the old slug stops working until you change it there."
        save={async (named) => {
          const changed = await api.workspace.update({ ws }, named)
          await queryClient.fetchQuery({ ...workspacesQuery, staleTime: 0 })
          await navigate({ to: '/$ws/-/settings', params: { ws: workspaceAddress(changed) }, replace: true })
        }}
      />
    </Section>
  )
}

function Teams({ ws }: { readonly ws: string }) {
  const { data: teams, error } = useQuery(teamsQuery(ws))
  const [isCreating, setCreating] = useState(false)
  return (
    <Section
      title="Teams"
      hint="A team groups projects. Members can be limited to the projects of a team."
      actions={<Button onClick={() => setCreating(true)}>New team</Button>}
    >
      <ErrorNote error={error} />
      {!teams && !error && <Skeleton rows={2} />}
      {teams && teams.length > 0 && (
        <Table label="Teams" columns={['Name', 'Projects', 'Created', '']}>
          {teams.map((team) => (
            <tr key={team.id}>
              <th scope="row">{team.name}</th>
              <td>{team.projectCount}</td>
              <td className="whitespace-nowrap text-soft">
                <Time at={team.createdAt} />
              </td>
              <td className="text-right">
                <TeamMenu ws={ws} team={team} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      {isCreating && <NewTeam ws={ws} onClose={() => setCreating(false)} />}
    </Section>
  )
}

function DeleteWorkspace({ ws }: { readonly ws: string }) {
  const { workspace } = useRights()
  const { data: teams = [] } = useQuery(teamsQuery(ws))
  const [isOpen, setOpen] = useState(false)
  const projects = teams.reduce((sum, { projectCount }) => sum + projectCount, 0)
  return (
    <Section
      title="Delete this workspace"
      hint="All projects with their secrets, histories, syncs, shares and tokens are destroyed."
      actions={
        <Button kind="danger" onClick={() => setOpen(true)}>
          Delete workspace
        </Button>
      }
    >
      <ConfirmDialog
        title={`Delete ${workspace.name}?`}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
        typed={workspace.slug}
        action={`Delete ${workspace.name}`}
        asksWho
        onConfirm={async (confirmation) => {
          await api.workspace.delete({ ws }, confirmation)
          // A full page load drops everything that this page holds of the workspace.
          location.assign('/')
        }}
      >
        <p>
          This destroys {plural(projects, 'project')} at once, with all secrets and all versions of them. Everything
          that reads from this workspace stops working. Nobody can undo this.
        </p>
      </ConfirmDialog>
    </Section>
  )
}
