import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { SelectField } from '../../parts/field.tsx'
import { errorBeside } from '../../parts/field-error.ts'
import { FormDialog } from '../../parts/form-dialog.tsx'
import { NameAndSlug } from '../../parts/name-and-slug.tsx'

type NewProjectProps = {
  readonly ws: string
  /** Those in which this person may create projects. */
  readonly teams: readonly { readonly id: string; readonly name: string }[]
}

export function NewProject({ onClose, ws, teams }: NewProjectProps & { readonly onClose: () => void }) {
  const { save, renderFields } = useNewProject(ws, teams)
  return (
    <FormDialog
      title="New project"
      description="It starts with the environments development, staging and production."
      action="Create project"
      onClose={onClose}
      save={save}
      fields={['name', 'slug']}
    >
      {renderFields}
    </FormDialog>
  )
}

export function FirstProject({ ws, teams }: NewProjectProps) {
  const { save, renderFields } = useNewProject(ws, teams)
  const { run, isBusy, error } = useAction(save)

  function submit(event: FormEvent): void {
    event.preventDefault()
    void run()
  }

  return (
    <form className="first-project" onSubmit={submit} aria-labelledby="first-project">
      <h2 id="first-project">Create your first project</h2>
      <p className="text-soft">
        A project holds the secrets of one application. It starts with the environments development, staging and
        production; next you paste your .env.
      </p>
      {renderFields(error)}
      <ErrorNote error={errorBeside(error, 'name', 'slug')} />
      <Button type="submit" kind="primary" isBusy={isBusy} className="self-start">
        Create project
      </Button>
    </form>
  )
}

/** Creating a project leads to its empty grid, which offers to paste a .env. */
function useNewProject(ws: string, teams: NewProjectProps['teams']) {
  const navigate = useNavigate()
  const [named, setNamed] = useState({ name: '', slug: '' })
  const [teamId, setTeamId] = useState(teams[0]?.id ?? '')

  async function save(): Promise<void> {
    const { slug } = await api.project.create({ ws }, { ...named, teamId })
    await queryClient.invalidateQueries({ queryKey: ['projects', ws] })
    await navigate({ to: '/$ws/$prj', params: { ws, prj: slug } })
  }

  const renderFields = (error: unknown) => (
    <>
      <NameAndSlug
        label="Name"
        autoFocus
        slugHint={`Its address: ${location.host}/${ws}/${named.slug || '…'}`}
        value={named}
        error={error}
        onChange={setNamed}
      />
      {teams.length > 1 && (
        <SelectField label="Team" value={teamId} onChange={({ target }) => setTeamId(target.value)}>
          {teams.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </SelectField>
      )}
    </>
  )
  return { save, renderFields }
}
