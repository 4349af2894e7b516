/** Chooses a scope: everything, or teams, projects and environments in a tree, with what it reaches in words. */
import type { Scope, TeamGroup } from '@coffer/sdk'
import { useId, useState } from 'react'
import { plural } from '../plural.ts'
import { everything, nothing, reachedBy } from './scope.ts'
import { ScopeTree } from './scope-tree.tsx'
import './scope.css'

type ScopeFieldProps = {
  readonly teams: readonly TeamGroup[]
  /** The scope of the person who grants: nobody grants more than they have. */
  readonly own: Scope
  readonly value: Scope
  readonly onChange: (scope: Scope) => void
  readonly error?: string | undefined
}

export function ScopeField({ teams, own, value, onChange, error }: ScopeFieldProps) {
  const id = useId()
  // Comes back if somebody looks at "Everything" and returns.
  const [parts, setParts] = useState(value.all ? nothing : value)

  function choose(scope: Scope): void {
    setParts(scope)
    onChange(scope)
  }

  const notes = [`${id}-preview`, error ? `${id}-error` : ''].filter(Boolean).join(' ')
  return (
    <fieldset className="scope" aria-describedby={notes}>
      <legend>Scope</legend>
      {own.all && (
        <>
          <label className="check">
            <input type="radio" name={id} checked={value.all} onChange={() => onChange(everything)} />
            <span>
              Everything
              <span className="hint">All teams and projects, also those added later.</span>
            </span>
          </label>
          <label className="check">
            <input type="radio" name={id} checked={!value.all} onChange={() => onChange(parts)} />
            <span>Chosen teams, projects or environments</span>
          </label>
        </>
      )}
      {!value.all && <ScopeTree teams={teams} own={own} value={value} onChange={choose} />}
      {error && (
        <p id={`${id}-error`} className="error">
          {error}
        </p>
      )}
      <ScopePreview id={`${id}-preview`} scope={value} teams={teams} />
    </fieldset>
  )
}

const shownProjects = 5

/** Says what somebody with this scope can see. */
function ScopePreview({ id, scope, teams }: { id: string; scope: Scope; teams: readonly TeamGroup[] }) {
  const reached = reachedBy(scope, teams)
  const total = teams.flatMap(({ projects }) => projects)
  const environments = reached.reduce((sum, one) => sum + one.environments.length, 0)
  const totalEnvironments = total.reduce((sum, project) => sum + project.environmentList.length, 0)
  const rest = reached.length - shownProjects
  return (
    <div id={id} className="scope-preview" aria-live="polite">
      {reached.length === 0 && !scope.all ? (
        <p>Reaches nothing yet. Tick at least one.</p>
      ) : (
        <>
          <p>
            Reaches {reached.length} of {plural(total.length, 'project')}, {environments} of{' '}
            {plural(totalEnvironments, 'environment')}
            {scope.all || reached.length === 0 ? '.' : ':'}
          </p>
          {!scope.all && (
            <ul>
              {reached.slice(0, shownProjects).map(({ project, environments }) => (
                <li key={project.id}>
                  <b>{project.name}</b>{' '}
                  {environments.length === project.environmentList.length
                    ? `all ${plural(environments.length, 'environment')}`
                    : environments.join(', ')}
                </li>
              ))}
              {rest > 0 && <li>and {plural(rest, 'more project', 'more projects')}</li>}
            </ul>
          )}
        </>
      )}
    </div>
  )
}
