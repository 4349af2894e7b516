import type { Project, WriteResult } from '@coffer/sdk'
import { type FormEvent, useEffect, useState } from 'react'
import { api } from '../../api/client.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { SelectField, TextAreaField, TextField } from '../../parts/field.tsx'
import { errorBeside, fieldError } from '../../parts/field-error.ts'
import { plural } from '../../parts/plural.ts'

type FirstSecretsProps = {
  readonly ws: string
  readonly project: Project
  readonly onSaved: (environment: string) => void
  readonly onSkip: (environment: string) => void
}

type Entered = { readonly isPaste: boolean; readonly content: string; readonly key: string; readonly value: string }
const nothing: Entered = { isPaste: true, content: '', key: '', value: '' }

/** Typed values stay in this component and leaves it only for the service. */
export function FirstSecrets({ ws, project, onSaved, onSkip }: FirstSecretsProps) {
  const [entered, setEntered] = useState(nothing)
  const [environmentId, setEnvironmentId] = useState(project.environments[0]?.id ?? '')
  const environment = project.environments.find(({ id }) => id === environmentId)?.name ?? ''
  const path = { ws, prj: project.slug }
  const { isPaste, content, key, value } = entered
  const file = { environmentId, format: 'dotenv', content } as const
  const plan = usePlan(isPaste ? content : '', (signal) =>
    api.secret.import(path, { ...file, dryRun: true }, { signal }),
  )
  const { run, isBusy, error } = useAction(async () => {
    if (isPaste) await api.secret.import(path, file)
    else await api.secret.create(path, { environments: [environmentId], secrets: [{ key, value }] })
    setEntered(nothing)
    onSaved(environment)
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    void run()
  }

  const names = plan.results?.map((result) => result.key) ?? []
  const problem = isPaste ? (plan.error ?? error) : error
  return (
    <form className="setup-form" onSubmit={submit}>
      {isPaste ? (
        <TextAreaField
          label="Paste your .env"
          rows={9}
          autoFocus
          placeholder={'DATABASE_URL=postgres://localhost/shop\nSTRIPE_SECRET_KEY=…'}
          value={content}
          hint={
            isPaste && names.length > 0 && !problem ? `${plural(names.length, 'secret')}: ${listed(names)}` : undefined
          }
          error={fieldError(problem, 'content')}
          onChange={({ target }) => setEntered({ ...entered, content: target.value })}
        />
      ) : (
        <div className="setup-pair">
          <TextField
            label="Name"
            required
            autoFocus
            className="font-mono"
            placeholder="DATABASE_URL"
            value={key}
            error={fieldError(problem, 'secrets.0.key')}
            onChange={({ target }) => setEntered({ ...entered, key: target.value })}
          />
          <TextField
            label="Value"
            type="password"
            autoComplete="off"
            className="font-mono"
            value={value}
            error={fieldError(problem, 'secrets.0.value')}
            onChange={({ target }) => setEntered({ ...entered, value: target.value })}
          />
        </div>
      )}
      <SelectField label="Environment" value={environmentId} onChange={({ target }) => setEnvironmentId(target.value)}>
        {project.environments.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </SelectField>
      <ErrorNote error={errorBeside(problem, 'content', 'secrets.0.key', 'secrets.0.value')} />
      <div className="setup-actions">
        <Button kind="quiet" className="mr-auto" onClick={() => setEntered({ ...nothing, isPaste: !isPaste })}>
          {isPaste ? 'Type one secret instead' : 'Paste a .env instead'}
        </Button>
        <Button kind="quiet" onClick={() => onSkip(environment)}>
          Skip
        </Button>
        <Button type="submit" kind="primary" isBusy={isBusy} disabled={isPaste && names.length === 0}>
          {isPaste && names.length > 0 ? `Save ${plural(names.length, 'secret')}` : 'Save'}
        </Button>
      </div>
    </form>
  )
}

const listedCount = 6

const listed = (names: readonly string[]) =>
  names.length > listedCount
    ? `${names.slice(0, listedCount).join(', ')} and ${plural(names.length - listedCount, 'other')}`
    : names.join(', ')

type Plan = { readonly results?: readonly WriteResult[]; readonly error?: unknown }

const pauseMs = 400

/** Asks the service what the text would change, once typing pauses. */
function usePlan(content: string, ask: (signal: AbortSignal) => Promise<{ readonly results: WriteResult[] }>): Plan {
  const [plan, setPlan] = useState<Plan & { readonly of: string }>({ of: '' })
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new text is the only reason to ask again
  useEffect(() => {
    if (content.trim() === '') return
    const abort = new AbortController()
    const timer = setTimeout(async () => {
      try {
        const { results } = await ask(abort.signal)
        if (!abort.signal.aborted) setPlan({ of: content, results })
      } catch (error) {
        if (!abort.signal.aborted) setPlan({ of: content, error })
      }
    }, pauseMs)
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [content])
  return plan.of === content ? plan : {}
}
