import { TextField } from '../../parts/field.tsx'
import { fieldError } from '../../parts/field-error.ts'

type Props = { readonly value: string; readonly error: unknown; readonly onChange: (value: string) => void }

/** Asked for again before a change of the second factor: an open session alone does not prove who is there. */
export function OwnPassword({ value, error, onChange }: Props) {
  return (
    <TextField
      label="Your password"
      type="password"
      required
      autoFocus
      autoComplete="current-password"
      value={value}
      error={fieldError(error, 'password')}
      onChange={({ target }) => onChange(target.value)}
    />
  )
}
