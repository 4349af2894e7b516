import type { Preferences } from '@coffer/sdk'
import { useSuspenseQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { queryClient } from '../../api/query-client.ts'
import { meQuery } from '../../api/session.ts'
import { workspacesQuery } from '../../api/workspace.ts'
import { applyTheme, type Theme } from '../../look/theme.ts'
import { useAction } from '../../parts/action.ts'
import { ErrorNote } from '../../parts/error-note.tsx'
import { CheckField, SelectField } from '../../parts/field.tsx'
import { Section } from '../../parts/page.tsx'
import { say } from '../../parts/toast.tsx'

const themes: readonly (readonly [Theme, string])[] = [
  ['system', 'As the system'],
  ['light', 'Light'],
  ['dark', 'Dark'],
]

/** Each change is saved at once. */
export function PreferencesForm() {
  const { data: me } = useSuspenseQuery(meQuery)
  const { data: workspaces } = useSuspenseQuery(workspacesQuery)
  // Shown while it is being saved: a control must follow its click.
  const [pending, setPending] = useState<Partial<Preferences>>({})
  const { theme, emailNotifications, defaultWorkspace } = { ...me.preferences, ...pending }
  const { run, isBusy, error } = useAction(async (change: Partial<Preferences>) => {
    setPending(change)
    try {
      await api.me.updatePreferences(change)
      await queryClient.invalidateQueries({ queryKey: meQuery.queryKey })
      if (change.theme) applyTheme(change.theme)
      say('Saved.')
    } finally {
      setPending({})
    }
  })
  return (
    <Section title="Preferences">
      <div className="settings-form">
        <SelectField
          label="Colours"
          value={theme}
          disabled={isBusy}
          onChange={({ target }) => {
            const chosen = themes.find(([name]) => name === target.value)
            if (chosen) void run({ theme: chosen[0] })
          }}
        >
          {themes.map(([name, text]) => (
            <option key={name} value={name}>
              {text}
            </option>
          ))}
        </SelectField>
        <SelectField
          label="Start in"
          hint="The workspace that opens first."
          value={defaultWorkspace ?? ''}
          disabled={isBusy}
          onChange={({ target }) => void run({ defaultWorkspace: target.value || null })}
        >
          <option value="">The list of workspaces</option>
          {workspaces.map(({ id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </SelectField>
        <CheckField
          label="Mail me about my account and reminders"
          checked={emailNotifications}
          disabled={isBusy}
          onChange={({ target }) => void run({ emailNotifications: target.checked })}
        />
        <ErrorNote error={error} />
      </div>
    </Section>
  )
}
