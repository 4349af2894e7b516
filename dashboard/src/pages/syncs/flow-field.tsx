import type { FlowField } from '@coffer/sdk'
import { Snippet } from '../../parts/copy.tsx'
import { SelectField, TextField } from '../../parts/field.tsx'

type FlowFieldProps = {
  readonly field: FlowField
  readonly value: string
  readonly error: string | undefined
  readonly onChange: (value: string) => void
}

/** One of the four kinds of fields that the server's forms are made of. */
export function FlowFieldInput({ field, value, error, onChange }: FlowFieldProps) {
  const { id, label } = field
  switch (field.type) {
    case 'input': {
      const { type, placeholder, description, isRequired = false } = field.data
      return (
        <TextField
          label={label}
          name={id}
          type={type}
          // A password manager would offer the person's own password for the vendor's credential.
          autoComplete={type === 'password' ? 'new-password' : 'off'}
          placeholder={placeholder}
          hint={description}
          aria-required={isRequired}
          error={error}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      )
    }
    case 'select': {
      const { placeholder, description, options, isRequired = false } = field.data
      return (
        <SelectField
          label={label}
          name={id}
          hint={description}
          aria-required={isRequired}
          error={error}
          value={value}
          onChange={(event) => onChange(event.target.value)}
        >
          <option value="">{placeholder === '' ? 'Choose' : `Choose, such as ${placeholder}`}</option>
          {options.map((option) => (
            <option key={option.value} value={option.value}>
              {option.label}
            </option>
          ))}
        </SelectField>
      )
    }
    case 'callback':
      return isWebAddress(field.data.url) ? (
        <p>
          <a className="link" href={field.data.url} rel="noreferrer">
            {label}
          </a>
        </p>
      ) : null
    case 'copy':
      return (
        <div className="flex flex-col gap-1">
          <h2>{label}</h2>
          {field.data.description && <p className="hint">{field.data.description}</p>}
          <Snippet text={field.data.value} label={label} />
        </div>
      )
  }
}

const isWebAddress = (url: string) => /^https?:\/\//.test(url)

/** The value that a form starts with: the server's default, such as the present setting, or the only choice. */
export function startValue(field: FlowField): string {
  if (field.type === 'input') return field.data.defaultValue ?? ''
  if (field.type !== 'select') return ''
  const [only, ...more] = field.data.options
  const isOnly = field.data.isRequired === true && more.length === 0
  return field.data.defaultValue ?? (isOnly ? (only?.value ?? '') : '')
}

export const isAnswerable = (field: FlowField) => field.type === 'input' || field.type === 'select'
