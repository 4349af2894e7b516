import type { Environment } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { environmentsQuery, projectQuery } from '../../api/workspace.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { CheckField, TextField } from '../../parts/field.tsx'
import { fieldError } from '../../parts/field-error.ts'
import { FormDialog } from '../../parts/form-dialog.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Menu } from '../../parts/menu.tsx'
import { Section, Skeleton } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'
import { Table } from '../../parts/table.tsx'

type Place = { readonly ws: string; readonly prj: string }

const refresh = ({ ws, prj }: Place) =>
  Promise.all([
    queryClient.invalidateQueries({ queryKey: environmentsQuery(ws, prj).queryKey }),
    queryClient.invalidateQueries({ queryKey: projectQuery(ws, prj).queryKey }),
    queryClient.invalidateQueries({ queryKey: ['projects', ws] }),
  ])

type EnvironmentsProps = Place & {
  readonly canCreate: boolean
  readonly administers: (environmentId: string) => boolean
}

export function Environments({ ws, prj, canCreate, administers }: EnvironmentsProps) {
  const place = { ws, prj }
  const { data: environments, error } = useQuery(environmentsQuery(ws, prj))
  const [isCreating, setCreating] = useState(false)
  const create = (
    <Button kind="primary" onClick={() => setCreating(true)}>
      New environment
    </Button>
  )
  return (
    <Section
      title="Environments"
      hint="Where personal values are allowed, each person can override a shared value for themselves alone. Applications never see them."
      actions={canCreate && create}
    >
      <ErrorNote error={error} />
      {!environments && !error && <Skeleton rows={3} />}
      {environments && (
        <Table label="Environments" columns={['Name', 'Secrets', 'Personal values', '']}>
          {environments.map((environment) =>
            administers(environment.id) ? (
              <EnvironmentRow key={environment.id} place={place} environment={environment} />
            ) : (
              <ReadRow key={environment.id} environment={environment} />
            ),
          )}
        </Table>
      )}
      {isCreating && (
        <EnvironmentName
          title="New environment"
          action="Create environment"
          onClose={() => setCreating(false)}
          save={async (name) => {
            await api.environment.create(place, { name })
            await refresh(place)
          }}
        />
      )}
    </Section>
  )
}

/** An environment that this person sees, in a project of which they administer another part. */
function ReadRow({ environment: { name, totalSecrets, hasPersonalOverrides } }: { readonly environment: Environment }) {
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{totalSecrets.toLocaleString('en')}</td>
      <td>{hasPersonalOverrides ? 'allowed' : 'not allowed'}</td>
      <td className="text-right text-soft">another admin changes it</td>
    </tr>
  )
}

function EnvironmentRow({ place, environment }: { readonly place: Place; readonly environment: Environment }) {
  const { id, name, totalSecrets, hasPersonalOverrides } = environment
  const path = { ...place, environmentId: id }
  const [dialog, setDialog] = useState<'rename' | 'delete'>()
  const close = () => setDialog(undefined)
  // Shown while it is being saved: a control must follow its click.
  const [pending, setPending] = useState<boolean>()
  const { run, isBusy, error } = useAction(async (allowed: boolean) => {
    setPending(allowed)
    try {
      await api.environment.update(path, { hasPersonalOverrides: allowed })
      await refresh(place)
    } finally {
      setPending(undefined)
    }
  })
  const rename = { text: 'Rename', onSelect: () => setDialog('rename') }
  const remove = { text: 'Delete', kind: 'danger', onSelect: () => setDialog('delete') } as const
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{totalSecrets.toLocaleString('en')}</td>
      <td>
        <CheckField
          label={
            <>
              allowed<span className="sr-only"> in {name}</span>
            </>
          }
          checked={pending ?? hasPersonalOverrides}
          disabled={isBusy}
          onChange={({ target }) => void run(target.checked)}
        />
        <ErrorNote error={error} />
      </td>
      <td className="text-right">
        <Menu label={`Environment ${name}`} trigger={<Icon name="more" />} groups={[[rename], [remove]]} />
        {dialog === 'rename' && (
          <EnvironmentName
            title={`Rename ${name}`}
            description="References, .coffer.json files, pipelines and applications that use the old name stop working."
            action="Save"
            name={name}
            onClose={close}
            save={async (name) => {
              await api.environment.update(path, { name })
              await refresh(place)
            }}
          />
        )}
        <ConfirmDialog
          title={`Delete ${name}?`}
          isOpen={dialog === 'delete'}
          onClose={close}
          typed={name}
          action={`Delete ${name}`}
          onConfirm={async () => {
            await api.environment.delete(path)
            await refresh(place)
          }}
        >
          <p>
            This destroys {plural(totalSecrets, 'secret')} of {name} at once, with all versions, and ends its syncs.
            Other environments keep theirs. Nobody can undo this.
          </p>
        </ConfirmDialog>
      </td>
    </tr>
  )
}

type EnvironmentNameProps = {
  readonly title: string
  readonly description?: string
  readonly action: string
  readonly name?: string
  readonly onClose: () => void
  readonly save: (name: string) => Promise<unknown>
}

function EnvironmentName({ name: before = '', save, ...dialog }: EnvironmentNameProps) {
  const [name, setName] = useState(before)
  return (
    <FormDialog {...dialog} save={() => save(name)} fields={['name']}>
      {(error) => (
        <TextField
          label="Name"
          required
          autoFocus
          maxLength={48}
          hint="Letters, digits, spaces, dashes and underscores."
          value={name}
          error={fieldError(error, 'name')}
          onChange={({ target }) => setName(target.value)}
        />
      )}
    </FormDialog>
  )
}
