/** Imports a file of secrets: the text, what the service would do with it, and the import. The text is dropped on close. */
import { ApiError, type Environment } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { refreshProject } from '../../api/refresh.ts'
import { importFile, type LineProblem, lineProblemOf, planImport } from '../../api/secret-import.ts'
import { useProjectRights } from '../../api/use-rights.ts'
import { environmentsQuery } from '../../api/workspace.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { CheckField } from '../../parts/field.tsx'
import { Skeleton } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'
import { say } from '../../parts/toast.tsx'
import { ModeField, type WriteMode } from '../plan/mode-field.tsx'
import { isProduction, nameToType } from '../plan/production.ts'
import { countChanges, type EnvironmentPlan, ImportPlan } from './import/plan.tsx'
import { type ImportSource, SourceFields, sourceOf } from './import/source.tsx'

type ImportDialogProps = {
  readonly ws: string
  readonly prj: string
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly initialText?: string
  readonly onImported?: () => void
}

export function ImportDialog({ isOpen, ...rest }: ImportDialogProps) {
  return isOpen ? <Loading {...rest} /> : null
}

type OpenProps = Omit<ImportDialogProps, 'isOpen'>

function Loading(props: OpenProps) {
  const { canWriteIn } = useProjectRights()
  const { data: environments, error } = useQuery(environmentsQuery(props.ws, props.prj))
  if (environments) return <OpenImport {...props} environments={environments.filter(({ id }) => canWriteIn(id))} />
  return (
    <Dialog title="Import secrets" kind="wide" isOpen onClose={props.onClose}>
      {error ? <ErrorNote error={error} /> : <Skeleton />}
    </Dialog>
  )
}

type ChosenProps = OpenProps & { readonly environments: readonly Environment[] }

function OpenImport({ ws, prj, onClose, initialText = '', onImported, environments }: ChosenProps) {
  const [source, setSource] = useState<ImportSource>(() => sourceOf(initialText))
  const [chosenIds, setChosenIds] = useState<ReadonlySet<string>>(() => firstChoice(environments))
  const [mode, setMode] = useState<WriteMode>('skip')
  const [problem, setProblem] = useState<LineProblem>()
  const [plans, setPlans] = useState<readonly EnvironmentPlan[]>()
  const [message, setMessage] = useState('')
  const [typedText, setTypedText] = useState('')
  const [isLiteral, setLiteral] = useState(false)
  const chosen = environments.filter(({ id }) => chosenIds.has(id))
  const file = { format: source.format, content: source.text, mode, ...(isLiteral && { literal: true }) }

  const preview = useAction(async () => {
    setProblem(undefined)
    const found: EnvironmentPlan[] = []
    for (const environment of chosen) {
      try {
        const { results } = await planImport({ ws, prj, environmentId: environment.id }, file)
        found.push({ environment, results })
      } catch (error) {
        const line = lineProblemOf(error)
        if (line) return setProblem(line)
        if (!isConflict(error)) throw error
        found.push({ environment, results: [], error })
      }
    }
    setTypedText('')
    setPlans(found)
  })

  // The service imports into one environment at a time. If one fails, the others are kept, and a repetition leaves them out.
  const write = useAction(async () => {
    let current = plans ?? []
    const mark = ({ id }: Environment, change: Partial<EnvironmentPlan>) => {
      current = current.map((one) => (one.environment.id === id ? { ...one, ...change } : one))
      setPlans(current)
    }
    try {
      for (const { environment } of current.filter(({ isDone }) => !isDone)) {
        try {
          const { results } = await importFile({ ws, prj, environmentId: environment.id }, file, message)
          mark(environment, { results, isDone: true, error: undefined })
        } catch (error) {
          mark(environment, { error })
          throw error
        }
      }
    } finally {
      if (current.some(({ isDone }) => isDone)) {
        await refreshProject(ws, prj)
        onImported?.()
      }
    }
    say(`Imported ${plural(countChanges(current), 'value')} into ${listNames(chosen)}.`)
    onClose()
  })

  if (!plans) {
    return (
      <Dialog
        title="Import secrets"
        kind="wide"
        isOpen
        keepsOpen
        onClose={onClose}
        description="Nothing is written before you have seen what would change."
        actions={
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button
              kind="primary"
              isBusy={preview.isBusy}
              disabled={source.text.trim() === '' || chosen.length === 0}
              onClick={() => void preview.run()}
            >
              Preview
            </Button>
          </>
        }
      >
        <SourceFields
          source={source}
          problem={problem}
          onChange={(next) => {
            setProblem(undefined)
            setSource(next)
          }}
        />
        <fieldset className="flex flex-wrap gap-x-6 gap-y-2">
          <legend className="mb-1 text-s font-semibold">Environments</legend>
          {environments.map(({ id, name }) => (
            <CheckField
              key={id}
              label={name}
              checked={chosenIds.has(id)}
              onChange={(event) => setChosenIds(withChoice(chosenIds, id, event.target.checked))}
            />
          ))}
        </fieldset>
        <div className="sm:w-80">
          <ModeField mode={mode} onChange={setMode} />
        </div>
        <CheckField
          label={literalLabel}
          hint={literalHint}
          checked={isLiteral}
          onChange={(event) => setLiteral(event.target.checked)}
        />
        <ErrorNote error={preview.error} />
      </Dialog>
    )
  }

  const left = plans.filter(({ isDone }) => !isDone)
  const typed = nameToType(left.map(({ environment }) => environment))
  const changes = countChanges(left)
  const isRefused = !write.error && plans.some(({ error }) => error !== undefined)
  return (
    <Dialog
      title="Import secrets"
      kind="wide"
      isOpen
      keepsOpen
      isBusy={write.isBusy}
      onClose={onClose}
      description={statusOf(plans, isRefused)}
      actions={
        <>
          <Button
            disabled={write.isBusy}
            onClick={() => {
              write.clear()
              setPlans(undefined)
            }}
          >
            Back
          </Button>
          <Button
            kind="primary"
            isBusy={write.isBusy}
            disabled={changes === 0 || isRefused || (typed !== undefined && typedText !== typed)}
            onClick={() => void write.run()}
          >
            {changes === 0 ? 'Nothing to import' : `Import ${plural(changes, 'value')}`}
          </Button>
        </>
      }
    >
      <ImportPlan
        plans={plans}
        message={message}
        onMessage={setMessage}
        typed={typed}
        typedText={typedText}
        onTyped={setTypedText}
      />
    </Dialog>
  )
}

// biome-ignore-start lint/suspicious/noTemplateCurlyInString: the person sees it.
const literalLabel = 'Take ${…} as text, not as references'
const literalHint = 'For files with resolved values. In a .env file, single quotes do the same for one value.'
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: the person sees it.

function statusOf(plans: readonly EnvironmentPlan[], isRefused: boolean): string {
  if (plans.some(({ isDone }) => isDone)) return 'Not every environment has been written.'
  return isRefused ? 'The service refuses this import.' : 'The import would do this. Nothing has been written yet.'
}

function firstChoice(environments: readonly Environment[]): ReadonlySet<string> {
  const first = environments.find(({ name }) => !isProduction(name)) ?? environments[0]
  return new Set(first ? [first.id] : [])
}

function withChoice(ids: ReadonlySet<string>, id: string, isChosen: boolean): ReadonlySet<string> {
  return new Set(isChosen ? [...ids, id] : [...ids].filter((one) => one !== id))
}

const list = new Intl.ListFormat('en')
const listNames = (environments: readonly Environment[]) => list.format(environments.map(({ name }) => name))

const isConflict = (error: unknown) => error instanceof ApiError && error.status === 409
