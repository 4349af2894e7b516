import { useSuspenseQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { meQuery } from '../../api/session.ts'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { TextField } from '../../parts/field.tsx'
import { fieldError } from '../../parts/field-error.ts'
import { FormDialog } from '../../parts/form-dialog.tsx'
import { Section } from '../../parts/page.tsx'
import { say } from '../../parts/toast.tsx'
import { EnrolDialog } from './enrol-dialog.tsx'
import { OwnPassword } from './own-password.tsx'

export function SecondFactor() {
  const { data: me } = useSuspenseQuery(meQuery)
  const [dialog, setDialog] = useState<'enrol' | 'remove'>()
  const close = () => setDialog(undefined)
  const action = me.mfa ? (
    <Button kind="danger" onClick={() => setDialog('remove')}>
      Remove
    </Button>
  ) : (
    <Button kind="primary" onClick={() => setDialog('enrol')}>
      Set up
    </Button>
  )
  return (
    <Section
      title="Authenticator app"
      hint="With an authenticator app, signing in takes your password and a code that changes every 30 seconds."
      actions={action}
    >
      <p>{me.mfa ? <Badge tone="good">on</Badge> : <Badge>off</Badge>}</p>
      {dialog === 'enrol' && <EnrolDialog onClose={close} />}
      {dialog === 'remove' && <RemoveFactor onClose={close} />}
    </Section>
  )
}

function RemoveFactor({ onClose }: { readonly onClose: () => void }) {
  const [password, setPassword] = useState('')
  const [code, setCode] = useState('')

  async function save(): Promise<void> {
    await api.me.removeTotp({ password, code: code.trim() })
    await queryClient.invalidateQueries({ queryKey: meQuery.queryKey })
    say('The authenticator app is removed.')
  }

  return (
    <FormDialog
      title="Remove the authenticator app?"
      description="Signing in will take your password alone. The recovery codes stop working."
      action="Remove"
      onClose={onClose}
      save={save}
      fields={['password', 'code']}
    >
      {(error) => (
        <>
          <OwnPassword value={password} error={error} onChange={setPassword} />
          <TextField
            label="Code"
            hint="From the app, or a recovery code."
            required
            autoComplete="one-time-code"
            value={code}
            error={fieldError(error, 'code')}
            onChange={({ target }) => setCode(target.value)}
          />
        </>
      )}
    </FormDialog>
  )
}
