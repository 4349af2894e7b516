/** The address of the account: confirmed and changed by mailed links, which lead here with a token in the fragment. */
import { useSuspenseQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { meQuery } from '../../api/session.ts'
import { useAction } from '../../parts/action.ts'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { TextField } from '../../parts/field.tsx'
import { fieldError } from '../../parts/field-error.ts'
import { FormDialog } from '../../parts/form-dialog.tsx'
import { Section } from '../../parts/page.tsx'
import { say } from '../../parts/toast.tsx'

export function Email() {
  const { data: me } = useSuspenseQuery(meQuery)
  const [isChanging, setChanging] = useState(false)
  const confirm = useMailedLink()
  const verify = useAction(async () => {
    await api.me.verifyEmail()
    say(`A link is on its way to ${me.email}.`)
  })
  return (
    <Section title="Email">
      <div className="flex flex-wrap items-center gap-2">
        <span>{me.email}</span>
        {me.emailVerified ? <Badge tone="good">confirmed</Badge> : <Badge>not confirmed</Badge>}
        <span className="flex-1" />
        {!me.emailVerified && (
          <Button isBusy={verify.isBusy} onClick={() => void verify.run()}>
            Send a confirmation link
          </Button>
        )}
        <Button onClick={() => setChanging(true)}>Change address</Button>
      </div>
      <ErrorNote error={verify.error ?? confirm.error} />
      {isChanging && <ChangeEmail onClose={() => setChanging(false)} />}
    </Section>
  )
}

/** The token leaves the address bar and the history at once. */
function useMailedLink() {
  const hasStarted = useRef(false)
  const action = useAction(async (token: string) => {
    await api.me.confirmEmail({ token })
    await queryClient.invalidateQueries({ queryKey: meQuery.queryKey })
    say('Your email address is confirmed.')
  })
  // biome-ignore lint/correctness/useExhaustiveDependencies: the link is followed once
  useEffect(() => {
    const token = new URLSearchParams(location.hash.slice(1)).get('confirm-email')
    if (token === null || hasStarted.current) return
    hasStarted.current = true
    history.replaceState(history.state, '', location.pathname)
    void action.run(token)
  }, [])
  return action
}

function ChangeEmail({ onClose }: { readonly onClose: () => void }) {
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')

  async function save(): Promise<void> {
    await api.me.changeEmail({ email, password })
    say(`A link is on its way to ${email}. The address changes when you open it.`)
  }

  return (
    <FormDialog
      title="Change your address"
      description="A link goes to the new address. Until you open it, the old one stays; then the old one is told."
      action="Send the link"
      onClose={onClose}
      save={save}
      fields={['email', 'password']}
    >
      {(error) => (
        <>
          <TextField
            label="New email"
            type="email"
            required
            autoFocus
            autoComplete="email"
            value={email}
            error={fieldError(error, 'email')}
            onChange={({ target }) => setEmail(target.value)}
          />
          <TextField
            label="Your password"
            type="password"
            required
            autoComplete="current-password"
            value={password}
            error={fieldError(error, 'password')}
            onChange={({ target }) => setPassword(target.value)}
          />
        </>
      )}
    </FormDialog>
  )
}
