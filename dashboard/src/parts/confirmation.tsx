/** Asks who is there, before an act that an open session alone must not do. */
import type { Confirmation } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { meQuery } from '../api/session.ts'
import { TextField } from './field.tsx'
import { fieldError } from './field-error.ts'

/** Names of the fields, as the service gives them in an error. */
export const confirmationFields = ['password', 'code'] as const

/** The service accepts either; an empty field was not filled in. */
export const confirmationOf = ({ password = '', code = '' }: Confirmation): Confirmation =>
  code.trim() === '' ? { password } : { code: code.trim() }

export const isConfirmed = ({ password = '', code = '' }: Confirmation): boolean =>
  password !== '' || code.trim() !== ''

type Props = {
  readonly value: Confirmation
  readonly error: unknown
  readonly onChange: (value: Confirmation) => void
}

export function ConfirmationField({ value, error, onChange }: Props) {
  const { data: me } = useQuery(meQuery)
  return (
    <>
      <TextField
        label="Your password"
        type="password"
        autoComplete="current-password"
        value={value.password ?? ''}
        error={fieldError(error, 'password')}
        onChange={({ target }) => onChange({ ...value, password: target.value })}
      />
      {me?.mfa && (
        <TextField
          label="Or a code of your authenticator app"
          autoComplete="one-time-code"
          className="font-mono"
          value={value.code ?? ''}
          error={fieldError(error, 'code')}
          onChange={({ target }) => onChange({ ...value, code: target.value })}
        />
      )}
    </>
  )
}
