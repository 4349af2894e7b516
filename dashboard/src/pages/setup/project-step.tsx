import type { Project } from '@coffer/sdk'
import { type FormEvent, useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { errorBeside } from '../../parts/field-error.ts'
import { NameAndSlug } from '../../parts/name-and-slug.tsx'
import { Note } from '../../parts/note.tsx'
import type { SecretPlace } from '../grid/snippets.ts'
import { FirstSecrets } from './first-secrets.tsx'
import { Step } from './step.tsx'

type ProjectStepProps = { readonly ws: string; readonly onDone: (place: SecretPlace, isEmpty: boolean) => void }

export function ProjectStep({ ws, onDone }: ProjectStepProps) {
  const [project, setProject] = useState<Project>()
  const finish = (project: Project, environment: string, isEmpty: boolean) =>
    onDone({ url: location.origin, workspace: ws, project: project.slug, environment }, isEmpty)
  return (
    <Step
      number={2}
      title={project ? 'Add your first secrets' : 'Create a project'}
      hint={
        project
          ? 'They are encrypted before they are stored. You can copy them to other environments later.'
          : 'A project holds the secrets of one application, in the environments development, staging and production.'
      }
    >
      {project ? (
        <>
          <Note tone="good">The project {project.name} is created.</Note>
          <FirstSecrets
            ws={ws}
            project={project}
            onSaved={(environment) => finish(project, environment, false)}
            onSkip={(environment) => finish(project, environment, true)}
          />
        </>
      ) : (
        <ProjectForm ws={ws} onCreated={setProject} />
      )}
    </Step>
  )
}

function ProjectForm({ ws, onCreated }: { readonly ws: string; readonly onCreated: (project: Project) => void }) {
  const [named, setNamed] = useState({ name: '', slug: '' })
  const { run, isBusy, error } = useAction(async () => {
    const [team] = await api.team.list({ ws })
    const teamId = (team ?? (await api.team.create({ ws }, { name: 'Everyone' }))).id
    const project = await api.project.create({ ws }, { ...named, teamId })
    await queryClient.invalidateQueries({ queryKey: ['projects'] })
    onCreated(project)
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    void run()
  }

  return (
    <form className="setup-form" onSubmit={submit}>
      <div className="setup-pair">
        <NameAndSlug
          label="Project"
          placeholder="Shop"
          autoFocus
          slugHint={`Its address: ${location.host}/${ws}/${named.slug || '…'}`}
          value={named}
          error={error}
          onChange={setNamed}
        />
      </div>
      <ErrorNote error={errorBeside(error, 'name', 'slug')} />
      <div className="setup-actions">
        <a className="button quiet" href={`/${ws}`}>
          Skip
        </a>
        <Button type="submit" kind="primary" isBusy={isBusy}>
          Create project
        </Button>
      </div>
    </form>
  )
}
