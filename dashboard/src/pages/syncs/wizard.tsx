import { ApiError, type FlowStep, type SyncPlan } from '@coffer/sdk'
import { useMutation, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import {
  type FlowStepName,
  flowStepQuery,
  flowSteps,
  providersQuery,
  refreshSyncs,
  submitFlowStep,
} from '../../api/sync.ts'
import { useProjectRights } from '../../api/use-rights.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { Skeleton } from '../../parts/page.tsx'
import { say } from '../../parts/toast.tsx'
import { PageMissing } from '../failed.tsx'
import { ProjectPage } from '../shell/project-page.tsx'
import { AdminsOnly } from './admins-only.tsx'
import { FlowFieldInput, isAnswerable, startValue } from './flow-field.tsx'
import { Plan } from './plan.tsx'
import './syncs.css'

const route = getRouteApi('/signed-in/$ws/$prj/syncs/new/$slug/$step')

const stepTitles: Readonly<Record<FlowStepName, string>> = {
  auth: 'Sign in',
  target: 'Target',
  mapping: 'Secrets',
  review: 'Review',
}

/** The four steps of a setup, drawn from the forms of the server. */
export function SyncWizard() {
  const { ws, prj, slug, step } = route.useParams()
  const { id } = route.useSearch()
  const { canAdminister } = useProjectRights()
  const known = flowSteps.find((name) => name === step)
  if (!canAdminister) return <AdminsOnly />
  if (!known || id === undefined) return <PageMissing />
  return (
    <ProjectPage>
      <div className="flex max-w-160 flex-col gap-6">
        <WizardHead slug={slug} step={known} />
        {/* Another step is another form: nothing typed is carried over. */}
        <Step key={known} place={{ ws, prj }} slug={slug} id={id} step={known} />
      </div>
    </ProjectPage>
  )
}

function WizardHead({ slug, step }: { readonly slug: string; readonly step: FlowStepName }) {
  const { data: providers } = useQuery(providersQuery)
  const name = providers?.find((provider) => provider.slug === slug)?.defaultName ?? slug
  return (
    <div className="flex flex-col gap-2">
      <h2>Push to {name}</h2>
      <ol className="steps">
        {flowSteps.map((each, index) => (
          <li key={each} aria-current={each === step ? 'step' : undefined}>
            {index + 1}. {stepTitles[each]}
          </li>
        ))}
      </ol>
    </div>
  )
}

type StepProps = {
  readonly place: { readonly ws: string; readonly prj: string }
  readonly slug: string
  readonly id: string
  readonly step: FlowStepName
}

function Step({ place, slug, id, step }: StepProps) {
  const { data: form, error, refetch, isFetching } = useQuery(flowStepQuery(slug, id, step))
  const [round, setRound] = useState(0)
  if (error && !form) {
    return (
      <>
        <ErrorNote error={error} />
        <div>
          <Button isBusy={isFetching} onClick={() => void refetch()}>
            Try again
          </Button>
        </div>
      </>
    )
  }
  if (!form) return <Skeleton />
  // A step may be asked again, with fields that depend on the first answers. A form that is only read again, such as after
  // a new sign-in, keeps what was typed.
  const askAgain = async () => {
    await refetch()
    setRound(round + 1)
  }
  return <StepForm key={round} {...{ place, slug, id, step, form, askAgain }} />
}

type StepFormProps = StepProps & { readonly form: FlowStep; readonly askAgain: () => Promise<void> }

function StepForm({ place, slug, id, step, form, askAgain }: StepFormProps) {
  const navigate = useNavigate()
  const [values, setValues] = useState<Readonly<Record<string, string>>>(() =>
    Object.fromEntries(form.fields.filter(isAnswerable).map((field) => [field.id, startValue(field)])),
  )
  const submit = useMutation({
    mutationFn: () => submitFlowStep(slug, id, step, values),
    // Credentials are in the variables.
    gcTime: 0,
    onSuccess: async ({ step: next }) => {
      await refreshSyncs(place)
      if (next === 'done') {
        say('The sync is set up. Its first push starts now.')
        await navigate({ to: '/$ws/$prj/syncs/$id', params: { ...place, id } })
      } else if (next === step) {
        await askAgain()
      } else {
        const params = { ...place, slug, step: next }
        await navigate({ to: '/$ws/$prj/syncs/new/$slug/$step', params, search: { id } })
      }
    },
  })
  const { fieldId, text } = fieldError(submit.error, form)
  const plan = step === 'review' ? findPlan(form) : undefined
  // The plan has its own picture, and confirming it is the button.
  const fields = form.fields.filter((field) => !(plan && (field.id === 'plan' || field.id === 'confirm')))
  const required = fields.filter((field) => !isOptional(field))
  const optional = fields.filter(isOptional)
  const inputs = (some: typeof fields) =>
    some.map((field) => (
      <FlowFieldInput
        key={field.id}
        field={field}
        value={values[field.id] ?? ''}
        error={field.id === fieldId ? text : undefined}
        onChange={(value) => setValues({ ...values, [field.id]: value })}
      />
    ))

  function send(event: FormEvent): void {
    event.preventDefault()
    submit.mutate()
  }

  return (
    // The server checks the answers: whether one is required may depend on another one of the same form.
    <form onSubmit={send} noValidate className="flex flex-col gap-4">
      <p className="text-soft">{form.description}</p>
      {plan && <Plan plan={plan} />}
      {inputs(required)}
      {optional.length > 0 && optional.length < fewOptional && inputs(optional)}
      {optional.length >= fewOptional && (
        <details open={optional.some(({ id: name }) => name === fieldId) || undefined}>
          <summary>{`${optional.length} more settings, all optional`}</summary>
          <div className="flex flex-col gap-4 pt-4">{inputs(optional)}</div>
        </details>
      )}
      {submit.error && (fieldId === undefined || plan) && <ErrorNote error={text ?? submit.error} />}
      <div className="flex gap-2">
        <StepBack {...{ place, slug, id, step }} />
        <Button type="submit" kind="primary" isBusy={submit.isPending} disabled={(plan?.problems.length ?? 0) > 0}>
          {submit.isPending ? 'Checking …' : (form.next.text ?? 'Continue')}
        </Button>
      </div>
    </form>
  )
}

const fewOptional = 4

const isOptional = (field: FlowStep['fields'][number]) =>
  (field.type === 'input' || field.type === 'select') && field.data.isRequired !== true

function StepBack({ place, slug, id, step }: StepProps) {
  const before = flowSteps[flowSteps.indexOf(step) - 1]
  if (!before) {
    return (
      <Link className="button plain" to="/$ws/$prj/syncs" params={place}>
        Cancel
      </Link>
    )
  }
  const params = { ...place, slug, step: before }
  return (
    <Link className="button plain" to="/$ws/$prj/syncs/new/$slug/$step" params={params} search={{ id }}>
      Back
    </Link>
  )
}

/** A message about an answer begins with the id of its field and a colon. */
function fieldError(error: unknown, form: FlowStep): { fieldId?: string; text?: string } {
  if (!(error instanceof ApiError) || error.status !== 400) return {}
  const [, fieldId, text] = /^(?:values\.)?([\w-]+): ([\s\S]+)$/.exec(error.message) ?? []
  if (fieldId === undefined || text === undefined || !form.fields.some(({ id }) => id === fieldId)) return {}
  return { fieldId, text: text.charAt(0).toUpperCase() + text.slice(1) }
}

function findPlan(form: FlowStep): SyncPlan | undefined {
  const field = form.fields.find(({ id }) => id === 'plan')
  if (field?.type !== 'copy') return undefined
  // The server writes the plan of its own API into this field.
  return JSON.parse(field.data.value) as SyncPlan
}
