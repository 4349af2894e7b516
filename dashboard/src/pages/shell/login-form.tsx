import { ApiError } from '@coffer/sdk'
import { useMutation } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { signIn } from '../../api/session.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { TextField } from '../../parts/field.tsx'

type LoginFormProps = {
  /** Fixed where somebody continues a session that has ended. */
  readonly email?: string
  readonly onSignedIn?: () => void
}

/** Password first; the code of the second factor is asked for only if the account has one. */
export function LoginForm({ email: knownEmail, onSignedIn }: LoginFormProps) {
  const [email, setEmail] = useState(knownEmail ?? '')
  const [password, setPassword] = useState('')
  const [code, setCode] = useState('')
  const [needsCode, setNeedsCode] = useState(false)
  const login = useMutation({
    mutationFn: () => signIn({ email, password, ...(needsCode && { code: code.replace(/\s/g, '') }) }),
    gcTime: 0,
    onSuccess: () => {
      setPassword('')
      onSignedIn?.()
    },
    onError: (error) => {
      if (isCodeMissing(error)) setNeedsCode(true)
    },
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    login.mutate()
  }

  return (
    <form onSubmit={submit} className="flex flex-col gap-4">
      <TextField
        label="Email"
        type="email"
        required
        autoComplete="username"
        value={email}
        readOnly={knownEmail !== undefined}
        onChange={(event) => setEmail(event.target.value)}
      />
      <TextField
        label="Password"
        type="password"
        required
        autoComplete="current-password"
        value={password}
        onChange={(event) => setPassword(event.target.value)}
      />
      {needsCode && (
        <TextField
          label="Code"
          hint="The six digits of your authenticator app, or a recovery code."
          required
          autoFocus
          autoComplete="one-time-code"
          value={code}
          onChange={(event) => setCode(event.target.value)}
        />
      )}
      {login.error && !(isCodeMissing(login.error) && code === '') && <ErrorNote error={loginSentence(login.error)} />}
      <Button type="submit" kind="primary" isBusy={login.isPending}>
        Sign in
      </Button>
    </form>
  )
}

const isCodeMissing = (error: unknown) =>
  error instanceof ApiError && error.status === 401 && /code/i.test(error.message)

/** A refused login is no ended session, although both have the same status. */
const loginSentence = (error: unknown) => (error instanceof ApiError && error.status === 401 ? error.message : error)
