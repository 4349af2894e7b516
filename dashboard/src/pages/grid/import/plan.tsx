import type { Environment, WriteResult } from '@coffer/sdk'
import { useMemo } from 'react'
import { Badge } from '../../../parts/badge.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { TextField } from '../../../parts/field.tsx'
import { isChange, PlanList } from '../../plan/plan-list.tsx'
import { NoVariables } from '../no-variable.tsx'

export type EnvironmentPlan = {
  readonly environment: Environment
  readonly results: readonly WriteResult[]
  /** The service refuses this import. */
  readonly error?: unknown
  readonly isDone?: boolean
}

export const countChanges = (plans: readonly EnvironmentPlan[]) =>
  plans.reduce((count, { results }) => count + results.filter(isChange).length, 0)

type ImportPlanProps = {
  readonly plans: readonly EnvironmentPlan[]
  readonly message: string
  readonly onMessage: (message: string) => void
  /** Name of a production environment among them. */
  readonly typed: string | undefined
  readonly typedText: string
  readonly onTyped: (text: string) => void
}

/** The result of the dry run, environment by environment, and what is asked before the import. */
export function ImportPlan({ plans, message, onMessage, typed, typedText, onTyped }: ImportPlanProps) {
  const created = useMemo(
    () => [
      ...new Set(
        plans.flatMap(({ results }) => results.flatMap(({ key, status }) => (status === 'created' ? [key] : []))),
      ),
    ],
    [plans],
  )
  return (
    <>
      {plans.map(({ environment, results, error, isDone }) => (
        <section key={environment.id} className="flex flex-col gap-2" aria-label={environment.name}>
          <h3 className="flex items-center gap-2 font-semibold">
            {environment.name}
            {isDone && <Badge tone="good">imported</Badge>}
          </h3>
          <ErrorNote error={error} />
          {(!error || results.length > 0) && <PlanList results={results} />}
        </section>
      ))}
      <NoVariables names={created} />
      <TextField
        label="Message"
        hint="Optional. It stands in the history beside this import."
        maxLength={512}
        value={message}
        onChange={(event) => onMessage(event.target.value)}
      />
      {typed !== undefined && (
        <TextField
          label={`Type ${typed} to confirm`}
          value={typedText}
          onChange={(event) => onTyped(event.target.value)}
        />
      )}
    </>
  )
}
