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

export function Profile() {
  const { data: me } = useSuspenseQuery(meQuery)
  const [name, setName] = useState(me.name)
  const { run, isBusy, error } = useAction(async () => {
    await api.me.update({ name })
    await queryClient.invalidateQueries({ queryKey: meQuery.queryKey })
    say('Saved.')
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    void run()
  }

  return (
    <Section title="Profile">
      <form className="settings-row" onSubmit={submit}>
        <TextField
          label="Name"
          required
          maxLength={64}
          autoComplete="name"
          value={name}
          error={fieldError(error, 'name')}
          onChange={({ target }) => setName(target.value)}
        />
        <Button type="submit" isBusy={isBusy} disabled={name === me.name}>
          Save
        </Button>
      </form>
      <ErrorNote error={errorBeside(error, 'name')} />
    </Section>
  )
}
