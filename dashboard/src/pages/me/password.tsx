import { useSuspenseQuery } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { meQuery } from '../../api/session.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { TextField } from '../../parts/field.tsx'
import { errorBeside, fieldError } from '../../parts/field-error.ts'
import { Section } from '../../parts/page.tsx'
import { say } from '../../parts/toast.tsx'

export function Password() {
  const { data: me } = useSuspenseQuery(meQuery)
  const [currentPassword, setCurrent] = useState('')
  const [newPassword, setNew] = useState('')
  const { run, isBusy, error } = useAction(async () => {
    await api.me.changePassword({ currentPassword, newPassword })
    setCurrent('')
    setNew('')
    await queryClient.invalidateQueries({ queryKey: ['sessions'] })
    say('Your password is changed. All other sessions have ended.')
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    void run()
  }

  return (
    <Section title="Password" hint="A new password ends all your other sessions.">
      <form className="settings-form" onSubmit={submit}>
        {/* Password managers need to know which account this is. */}
        <input type="email" hidden readOnly autoComplete="username" value={me.email} />
        <TextField
          label="Current password"
          type="password"
          required
          autoComplete="current-password"
          value={currentPassword}
          error={fieldError(error, 'currentPassword')}
          onChange={({ target }) => setCurrent(target.value)}
        />
        <TextField
          label="New password"
          type="password"
          required
          maxLength={256}
          autoComplete="new-password"
          hint="At least 12 characters."
          value={newPassword}
          error={fieldError(error, 'newPassword')}
          onChange={({ target }) => setNew(target.value)}
        />
        <ErrorNote error={errorBeside(error, 'currentPassword', 'newPassword')} />
        <Button type="submit" className="self-start" isBusy={isBusy}>
          Change password
        </Button>
      </form>
    </Section>
  )
}
