import { Button } from '../../../parts/button.tsx'
import { Icon } from '../../../parts/icon.tsx'
import type { ClaimRow } from './identity-form.ts'

type ClaimsFieldProps = {
  readonly value: readonly ClaimRow[]
  readonly onChange: (claims: readonly ClaimRow[]) => void
  readonly error?: string | undefined
}

/** Every claim must match, each by one of its values. */
export function ClaimsField({ value, onChange, error }: ClaimsFieldProps) {
  const change = (id: number, part: Partial<ClaimRow>) =>
    onChange(value.map((row) => (row.id === id ? { ...row, ...part } : row)))
  const nextId = Math.max(-1, ...value.map(({ id }) => id)) + 1
  return (
    <fieldset className="claims">
      <legend>Claims</legend>
      {value.map((row, index) => (
        <ClaimLine
          key={row.id}
          row={row}
          label={row.name || `claim ${index + 1}`}
          onChange={(part) => change(row.id, part)}
          onRemove={() => onChange(value.filter(({ id }) => id !== row.id))}
        />
      ))}
      <p className="hint">
        Each claim must be in the token and match one of its values. <code>*</code> stands for any text.
      </p>
      {error && <p className="error">{error}</p>}
      <Button
        className="self-start"
        disabled={value.length >= 20}
        onClick={() => onChange([...value, { id: nextId, name: '', values: [''] }])}
      >
        <Icon name="plus" /> Add claim
      </Button>
    </fieldset>
  )
}

type ClaimLineProps = {
  readonly row: ClaimRow
  readonly label: string
  readonly onChange: (part: Partial<ClaimRow>) => void
  readonly onRemove: () => void
}

function ClaimLine({ row: { name, values }, label, onChange, onRemove }: ClaimLineProps) {
  const setValue = (at: number, text: string) =>
    onChange({ values: values.map((value, index) => (index === at ? text : value)) })
  return (
    <div className="claim field">
      <input
        aria-label={`Name of ${label}`}
        placeholder="name"
        maxLength={200}
        value={name}
        onChange={({ target }) => onChange({ name: target.value })}
      />
      <div className="claim-values">
        {values.map((value, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: values have no identity of their own and are edited in place
          <div key={index} className="claim-value">
            <input
              aria-label={index === 0 ? `Value of ${label}` : `Value ${index + 1} of ${label}`}
              placeholder="value"
              maxLength={500}
              value={value}
              onChange={({ target }) => setValue(index, target.value)}
            />
            {values.length > 1 && (
              <Button
                kind="quiet"
                aria-label={`Remove value ${index + 1} of ${label}`}
                onClick={() => onChange({ values: values.filter((_, at) => at !== index) })}
              >
                <Icon name="close" />
              </Button>
            )}
          </div>
        ))}
        <button type="button" className="link claim-or" onClick={() => onChange({ values: [...values, ''] })}>
          or another value<span className="sr-only"> of {label}</span>
        </button>
      </div>
      <Button kind="quiet" aria-label={`Remove ${label}`} onClick={onRemove}>
        <Icon name="trash" />
      </Button>
    </div>
  )
}
