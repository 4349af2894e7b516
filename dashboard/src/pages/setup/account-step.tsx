import { useSuspenseQuery } from '@tanstack/react-query'
import { type FormEvent, useEffect, useState } from 'react'
import { authStateQuery, registerFirst } from '../../api/session.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { TextField } from '../../parts/field.tsx'
import { errorBeside, fieldError } from '../../parts/field-error.ts'
import { NameAndSlug } from '../../parts/name-and-slug.tsx'
import { Step } from './step.tsx'

const minPasswordLength = 12

export function AccountStep({ onDone }: { readonly onDone: (ws: string) => void }) {
  const { data: state } = useSuspenseQuery(authStateQuery)
  const [needsCode] = useState(state.needsSetupCode)
  const [setupCode, setSetupCode] = useState(codeInAddress)
  const [isCodeAsked, askForCode] = useState(needsCode && setupCode === '')
  const [name, setName] = useState('')
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')
  const [workspace, setWorkspace] = useState({ name: 'Main', slug: 'main' })
  useEffect(removeCodeFromAddress, [])

  const { run, isBusy, error } = useAction(async () => {
    const account = { name, email, password, workspace, ...(needsCode && { setupCode: setupCode.trim() }) }
    await registerFirst(account).catch((error: unknown) => {
      if (fieldError(error, 'setupCode') !== undefined) askForCode(true)
      throw error
    })
    setPassword('')
    onDone(workspace.slug)
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    void run()
  }

  const left = minPasswordLength - password.length
  const passwordHint =
    password === '' || left <= 0
      ? 'At least 12 characters. Four or five random words are strong and easy to type.'
      : `${left} more ${left === 1 ? 'character' : 'characters'}.`
  return (
    <Step
      number={1}
      title="Create your account"
      hint="It owns this installation's first workspace. You can invite others later."
    >
      <form className="setup-form" onSubmit={submit}>
        {isCodeAsked && (
          <TextField
            label="Setup code"
            required
            autoFocus
            className="font-mono"
            hint="In the link that the service printed at its start, and in the file setup-code of its data folder; or the value of COFFER_SETUP_CODE."
            value={setupCode}
            error={fieldError(error, 'setupCode')}
            onChange={({ target }) => setSetupCode(target.value)}
          />
        )}
        <div className="setup-pair">
          <TextField
            label="Your name"
            required
            maxLength={64}
            autoFocus={!isCodeAsked}
            autoComplete="name"
            value={name}
            error={fieldError(error, 'name')}
            onChange={({ target }) => setName(target.value)}
          />
          <TextField
            label="Email"
            type="email"
            required
            autoComplete="username"
            value={email}
            error={fieldError(error, 'email')}
            onChange={({ target }) => setEmail(target.value)}
          />
        </div>
        <TextField
          label="Password"
          type="password"
          required
          maxLength={256}
          autoComplete="new-password"
          hint={passwordHint}
          value={password}
          error={fieldError(error, 'password')}
          onChange={({ target }) => setPassword(target.value)}
        />
        <div className="setup-pair">
          <NameAndSlug
            label="Workspace"
            prefix="workspace."
            slugHint={`Its address: ${location.host}/${workspace.slug || '…'}`}
            value={workspace}
            error={error}
            onChange={setWorkspace}
          />
        </div>
        <ErrorNote
          error={errorBeside(error, 'setupCode', 'name', 'email', 'password', 'workspace.name', 'workspace.slug')}
        />
        <div className="setup-actions">
          <Button type="submit" kind="primary" isBusy={isBusy}>
            Create account
          </Button>
        </div>
      </form>
    </Step>
  )
}

/** The service prints an address with the code in its fragment, which no server sees. */
const codeInAddress = () => new URLSearchParams(location.hash.slice(1)).get('code') ?? ''

function removeCodeFromAddress(): void {
  if (location.hash !== '') history.replaceState(history.state, '', location.pathname + location.search)
}
