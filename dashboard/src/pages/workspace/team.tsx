/** Teams: created, renamed and deleted, from the list of projects and from the settings of the workspace. */
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/field.tsx'
import { fieldError } from '../../parts/field-error.ts'
import { FormDialog } from '../../parts/form-dialog.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Menu } from '../../parts/menu.tsx'

type Team = { readonly id: string; readonly name: string }

const refresh = (ws: string) =>
  queryClient.invalidateQueries({ predicate: ({ queryKey: [kind, of] }) => isTeamList(kind) && of === ws })
const isTeamList = (kind: unknown) => kind === 'projects' || kind === 'teams'

export function NewTeam({ ws, onClose }: { readonly ws: string; readonly onClose: () => void }) {
  return (
    <TeamName
      title="New team"
      action="Create team"
      description="A team groups projects. Members can be limited to the projects of a team."
      onClose={onClose}
      save={(name) => api.team.create({ ws }, { name })}
      ws={ws}
    />
  )
}

export function TeamMenu({ ws, team }: { readonly ws: string; readonly team: Team }) {
  const [dialog, setDialog] = useState<'rename' | 'delete'>()
  const close = () => setDialog(undefined)
  const rename = { text: 'Rename', onSelect: () => setDialog('rename') }
  const remove = { text: 'Delete', kind: 'danger', onSelect: () => setDialog('delete') } as const
  return (
    <>
      <Menu label={`Team ${team.name}`} trigger={<Icon name="more" />} groups={[[rename], [remove]]} />
      {dialog === 'rename' && (
        <TeamName
          title="Rename team"
          action="Save"
          name={team.name}
          onClose={close}
          save={(name) => api.team.update({ ws, id: team.id }, { name })}
          ws={ws}
        />
      )}
      <ConfirmDialog
        title={`Delete the team ${team.name}?`}
        isOpen={dialog === 'delete'}
        onClose={close}
        action="Delete team"
        onConfirm={async () => {
          await api.team.delete({ ws, id: team.id })
          await refresh(ws)
        }}
      >
        <p>Only a team without projects can be deleted. Members whose access is limited to it lose that access.</p>
      </ConfirmDialog>
    </>
  )
}

type TeamNameProps = {
  readonly ws: string
  readonly title: string
  readonly action: string
  readonly description?: string
  readonly name?: string
  readonly onClose: () => void
  readonly save: (name: string) => Promise<unknown>
}

function TeamName({ ws, title, action, description, name: before = '', onClose, save }: TeamNameProps) {
  const [name, setName] = useState(before)

  async function saveName(): Promise<void> {
    await save(name)
    await refresh(ws)
  }

  return (
    <FormDialog
      title={title}
      description={description}
      action={action}
      onClose={onClose}
      save={saveName}
      fields={['name']}
    >
      {(error) => (
        <TextField
          label="Name"
          required
          autoFocus
          maxLength={64}
          value={name}
          error={fieldError(error, 'name')}
          onChange={({ target }) => setName(target.value)}
        />
      )}
    </FormDialog>
  )
}
