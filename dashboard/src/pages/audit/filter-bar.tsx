import { useQuery } from '@tanstack/react-query'
import { type ComponentProps, type KeyboardEvent, useId, useState } from 'react'
import type { AuditFilter } from '../../api/audit.ts'
import { identitiesQuery } from '../../api/identity.ts'
import { membersQuery } from '../../api/member.ts'
import { projectsQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { SelectField, TextField } from '../../parts/field.tsx'
import { actions, entityTypes, fromLocalTime, toLocalTime } from './filter.ts'

type FilterBarProps = {
  readonly ws: string
  readonly filter: AuditFilter
  /** An empty text removes its filter. */
  readonly onChange: (part: AuditFilter) => void
  readonly onClear: () => void
}

/** Names are offered for what exists now; an id or name in the address that is not among them stays as it is. */
export function FilterBar({ ws, filter, onChange, onClear }: FilterBarProps) {
  const { data: members = [] } = useQuery(membersQuery(ws))
  const { data: identities = [] } = useQuery(identitiesQuery(ws))
  const { data: teams = [] } = useQuery(projectsQuery(ws))
  const projects = teams.flatMap((team) => team.projects)
  const project = projects.find(({ id, slug }) => id === filter.project || slug === filter.project)
  const people = members.filter(({ user }) => user.id !== '')
  const actors = [
    ...people.map(({ user }) => ({ value: user.id, name: user.email })),
    ...identities.map(({ id, name }) => ({ value: id, name: `${name} (identity)` })),
  ]
  const environments = project?.environmentList.map(({ id, name }) => ({ value: id, name })) ?? []
  const typesId = useId()
  return (
    <div className="audit-filter">
      <Draft label="Search" placeholder="Part of a name" value={filter.q} onCommit={(q) => onChange({ q })} />
      <Choice label="Actor" value={filter.actor} options={actors} onChange={(actor) => onChange({ actor })} />
      <Choice
        label="Action"
        value={filter.action}
        options={actions.map((value) => ({ value, name: value.toLowerCase() }))}
        onChange={(action) => onChange({ action })}
      />
      <Draft
        label="What"
        placeholder="Type or name"
        list={typesId}
        value={filter.entity}
        onCommit={(entity) => onChange({ entity })}
      />
      <datalist id={typesId}>
        {entityTypes.map((type) => (
          <option key={type} value={type} />
        ))}
      </datalist>
      <Choice
        label="Project"
        value={project?.slug ?? filter.project}
        options={projects.map(({ slug, name }) => ({ value: slug, name }))}
        onChange={(slug) => onChange({ project: slug, environment: '' })}
      />
      {(environments.length > 0 || filter.environment !== undefined) && (
        <Choice
          label="Environment"
          value={filter.environment}
          options={environments}
          onChange={(environment) => onChange({ environment })}
        />
      )}
      <TextField
        label="From"
        type="datetime-local"
        value={toLocalTime(filter.from)}
        onChange={({ target }) => onChange({ from: fromLocalTime(target.value) })}
      />
      <TextField
        label="To"
        type="datetime-local"
        value={toLocalTime(filter.to)}
        onChange={({ target }) => onChange({ to: fromLocalTime(target.value) })}
      />
      {Object.values(filter).some((value) => value !== undefined) && (
        <Button kind="quiet" onClick={onClear}>
          Clear filters
        </Button>
      )}
    </div>
  )
}

type ChoiceProps = {
  readonly label: string
  readonly value: string | undefined
  readonly options: readonly { readonly value: string; readonly name: string }[]
  readonly onChange: (value: string) => void
}

function Choice({ label, value = '', options, onChange }: ChoiceProps) {
  const isKnown = value === '' || options.some((option) => option.value === value)
  return (
    <SelectField label={label} value={value} onChange={({ target }) => onChange(target.value)}>
      <option value="">any</option>
      {!isKnown && <option value={value}>{value}</option>}
      {options.map((option) => (
        <option key={option.value} value={option.value}>
          {option.name}
        </option>
      ))}
    </SelectField>
  )
}

type DraftProps = Omit<ComponentProps<typeof TextField>, 'value' | 'onChange'> & {
  readonly value: string | undefined
  readonly onCommit: (value: string) => void
}

/** Asks the service after Enter or on leaving the field: each question counts against the rate limit. */
function Draft({ value = '', onCommit, ...rest }: DraftProps) {
  const [draft, setDraft] = useState({ text: value, from: value })
  // The address has changed since, by Back or by clearing the filters.
  const text = draft.from === value ? draft.text : value
  const commit = () => {
    if (text.trim() !== value) onCommit(text.trim())
  }
  return (
    <TextField
      {...rest}
      maxLength={200}
      value={text}
      onChange={({ target }) => setDraft({ text: target.value, from: value })}
      onBlur={commit}
      onKeyDown={(event: KeyboardEvent) => {
        if (event.key === 'Enter') commit()
      }}
    />
  )
}
