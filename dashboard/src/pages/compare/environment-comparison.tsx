import type { Environment } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { diffQuery, type ProjectPlace, readDiffValues } from '../../api/history.ts'
import { useProjectRights } from '../../api/use-rights.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { SelectField, TextField } from '../../parts/field.tsx'
import { Icon } from '../../parts/icon.tsx'
import { EmptyState, Skeleton } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'
import { useShortLived } from '../../parts/short-lived.ts'
import { ProjectPage } from '../shell/project-page.tsx'
import { comparedKeys, countKeys, filterKeys, isPromotable, type KeyFilter, type Sides } from './comparison.ts'
import { ComparisonTable, type DiffValues } from './comparison-table.tsx'
import { PromoteDialog } from './promote-dialog.tsx'
import './compare.css'

type ComparisonProps = {
  readonly place: ProjectPlace
  readonly environments: readonly Environment[]
  readonly sides: Sides
  readonly onSides: (sides: Sides) => void
}

export function EnvironmentComparison({ place, environments, sides, onSides }: ComparisonProps) {
  const { from, to } = sides
  const canWrite = useProjectRights().canWriteIn(to.id)
  const { data: diff, error } = useQuery(diffQuery(place, from.id, to.id))
  const [filter, setFilter] = useState<KeyFilter>('differences')
  const [text, setText] = useState('')
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set())
  const [promoted, setPromoted] = useState<readonly string[]>()
  const [values, setValues] = useShortLived<DiffValues>()
  const [isAsking, setAsking] = useState(false)
  const [hasAsked, setHasAsked] = useState(false)

  const keys = diff ? comparedKeys(diff) : []
  const promotable = keys.filter(isPromotable)
  const chosen = promotable.filter(({ name }) => ticked.has(name)).map(({ name }) => name)
  const load = async () => setValues(await readDiffValues(place, from.id, to.id))
  const showValues = useAction(load)
  const third = environments.find((one) => one !== from && one !== to)

  return (
    <ProjectPage
      actions={
        canWrite && (
          <Button kind="primary" disabled={chosen.length === 0} onClick={() => setPromoted(chosen)}>
            {chosen.length === 0 ? 'Promote' : `Promote ${plural(chosen.length, 'key')}`}
          </Button>
        )
      }
    >
      <div className="compare-bar">
        <SideField
          label="From"
          environments={environments}
          side={from}
          onChange={(side) => onSides(withFrom(sides, side))}
        />
        <Button aria-label="Swap the two environments" title="Swap" onClick={() => onSides({ from: to, to: from })}>
          <Icon name="swap" />
        </Button>
        <SideField label="To" environments={environments} side={to} onChange={(side) => onSides(withTo(sides, side))} />
        {values ? (
          <Button onClick={() => setValues(undefined)}>Hide values</Button>
        ) : (
          <Button
            isBusy={showValues.isBusy}
            disabled={countKeys(keys, 'differences') === 0}
            onClick={() => (hasAsked ? void showValues.run() : setAsking(true))}
          >
            <Icon name="eye" />
            Show values
          </Button>
        )}
      </div>
      <ErrorNote error={error ?? showValues.error} />
      {diff && keys.length === 0 && (
        <EmptyState
          title="Both environments are empty"
          action={
            third && (
              <Button onClick={() => onSides({ from: third, to: from })}>
                {`Compare ${third.name} with ${from.name}`}
              </Button>
            )
          }
        >
          <p>{`There is no secret in ${from.name} or ${to.name} yet.`}</p>
        </EmptyState>
      )}
      {!diff && !error && <Skeleton />}
      {keys.length > 0 && (
        <>
          <div className="compare-tools">
            <TextField
              label="Filter by name"
              isLabelHidden
              type="search"
              placeholder={`Filter ${plural(keys.length, 'key')}`}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
            {filtersOf(sides).map(([one, title]) => (
              <button
                key={one}
                type="button"
                className="chip"
                aria-pressed={filter === one}
                onClick={() => setFilter(one)}
              >
                {title} <b>{countKeys(keys, one)}</b>
              </button>
            ))}
          </div>
          <ComparisonTable
            key={`${filter} ${text}`}
            sides={sides}
            keys={filterKeys(keys, filter, text)}
            values={values}
            {...(canWrite && { ticked, onTick: setTicked })}
          />
        </>
      )}
      <ConfirmDialog
        title="Show the values of both environments"
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        action="Show values"
        kind="primary"
        onConfirm={async () => {
          await load()
          setHasAsked(true)
        }}
      >
        <p>
          {`You read every value that differs between ${from.name} and ${to.name}. This is recorded in the audit log. `}
          The values are hidden again after 30 seconds.
        </p>
      </ConfirmDialog>
      {promoted && (
        <PromoteDialog
          place={place}
          sides={sides}
          keys={promoted}
          onClose={() => setPromoted(undefined)}
          onPromoted={() => {
            setTicked(new Set())
            setValues(undefined)
          }}
        />
      )}
    </ProjectPage>
  )
}

const filtersOf = ({ from, to }: Sides): readonly (readonly [KeyFilter, string])[] => [
  ['differences', 'Differences'],
  ['missing', `Missing in ${to.name}`],
  ['different', 'Different'],
  ['extra', `Missing in ${from.name}`],
  ['same', 'Same'],
]

/** Choosing the other side's environment swaps the two. */
const withFrom = ({ from, to }: Sides, side: Environment): Sides => ({ from: side, to: side === to ? from : to })
const withTo = ({ from, to }: Sides, side: Environment): Sides => ({ from: side === from ? to : from, to: side })

type SideFieldProps = {
  readonly label: string
  readonly environments: readonly Environment[]
  readonly side: Environment
  readonly onChange: (side: Environment) => void
}

function SideField({ label, environments, side, onChange }: SideFieldProps) {
  return (
    <SelectField
      label={label}
      value={side.id}
      onChange={(event) => onChange(environments.find(({ id }) => id === event.target.value) ?? side)}
    >
      {environments.map(({ id, name }) => (
        <option key={id} value={id}>
          {name}
        </option>
      ))}
    </SelectField>
  )
}
