import type { Workspace } from '@coffer/sdk'
import { useSuspenseQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { workspaceAddress, workspacesQuery } from '../../api/workspace.ts'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { FormDialog } from '../../parts/form-dialog.tsx'
import { NameAndSlug } from '../../parts/name-and-slug.tsx'
import { EmptyState, Page } from '../../parts/page.tsx'
import { Table } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'

export function Workspaces() {
  const { data: workspaces } = useSuspenseQuery(workspacesQuery)
  const [isCreating, setCreating] = useState(false)
  const create = (
    <Button kind="primary" onClick={() => setCreating(true)}>
      New workspace
    </Button>
  )
  return (
    <Page title="Workspaces" actions={workspaces.length > 0 && create}>
      {workspaces.length === 0 ? (
        <EmptyState title="You are in no workspace" action={create}>
          <p>Ask an admin for an invite to theirs, or create one of your own.</p>
        </EmptyState>
      ) : (
        <Table label="Your workspaces" columns={['Name', 'Slug', 'Your role', 'Created']}>
          {workspaces.map((workspace) => (
            <tr key={workspace.id}>
              <th scope="row">
                <Link className="row-link" to="/$ws" params={{ ws: workspaceAddress(workspace) }}>
                  {workspace.name}
                </Link>
              </th>
              <td>
                <code>{workspace.slug}</code>
              </td>
              <td>
                <Badge>{workspace.isOwner ? 'owner' : rolesOf(workspace)}</Badge>
              </td>
              <td className="whitespace-nowrap text-soft">
                <Time at={workspace.createdAt} />
              </td>
            </tr>
          ))}
        </Table>
      )}
      {isCreating && <NewWorkspace onClose={() => setCreating(false)} />}
    </Page>
  )
}

/** Somebody may have several, in different parts. */
const rolesOf = ({ grants }: Workspace) => [...new Set(grants.map(({ role }) => role))].join(', ')

function NewWorkspace({ onClose }: { readonly onClose: () => void }) {
  const navigate = useNavigate()
  const [named, setNamed] = useState({ name: '', slug: '' })

  async function save(): Promise<void> {
    const workspace = await api.workspace.create(named)
    await queryClient.invalidateQueries({ queryKey: workspacesQuery.queryKey })
    await navigate({ to: '/$ws', params: { ws: workspaceAddress(workspace) } })
  }

  return (
    <FormDialog
      title="New workspace"
      description="A workspace has its own projects, teams and members. You become its owner."
      action="Create workspace"
      onClose={onClose}
      save={save}
      fields={['name', 'slug']}
    >
      {(error) => (
        <NameAndSlug
          label="Name"
          autoFocus
          slugHint={`Its address: ${location.host}/${named.slug || '…'}`}
          value={named}
          error={error}
          onChange={setNamed}
        />
      )}
    </FormDialog>
  )
}
