import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { membersQuery } from '../../api/member.ts'
import { queryClient } from '../../api/query-client.ts'
import { meQuery } from '../../api/session.ts'
import { workspacesQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { SelectField } from '../../parts/field.tsx'
import { Section } from '../../parts/page.tsx'
import { say } from '../../parts/toast.tsx'

export function HandOver({ ws }: { readonly ws: string }) {
  const { data: me } = useQuery(meQuery)
  const { data: members = [], error } = useQuery(membersQuery(ws))
  const others = members.filter(({ status, user }) => status === 'account-created' && user.id !== me?.id)
  const [memberId, setMemberId] = useState('')
  const [isOpen, setOpen] = useState(false)
  const chosen = others.find(({ id }) => id === memberId)
  return (
    <Section
      title="Hand over ownership"
      hint="The owner alone can delete the workspace, and cannot be removed from it."
    >
      <ErrorNote error={error} />
      {others.length === 0 ? (
        <p className="text-soft">You are the only member. Invite somebody first, under Access.</p>
      ) : (
        <div className="settings-row">
          <SelectField label="New owner" value={memberId} onChange={({ target }) => setMemberId(target.value)}>
            <option value="">Choose a member</option>
            {others.map(({ id, user }) => (
              <option key={id} value={id}>
                {user.name === user.email ? user.email : `${user.name} (${user.email})`}
              </option>
            ))}
          </SelectField>
          <Button disabled={!chosen} onClick={() => setOpen(true)}>
            Hand over
          </Button>
        </div>
      )}
      {chosen && (
        <ConfirmDialog
          title={`Hand over to ${chosen.user.name}?`}
          isOpen={isOpen}
          onClose={() => setOpen(false)}
          action="Hand over ownership"
          asksWho
          onConfirm={async (confirmation) => {
            await api.workspace.handOver({ ws }, { memberId: chosen.id, ...confirmation })
            say(`${chosen.user.name} is the owner now.`)
            await queryClient.invalidateQueries({ queryKey: workspacesQuery.queryKey })
            await queryClient.invalidateQueries(membersQuery(ws))
          }}
        >
          <p>
            {chosen.user.name} becomes owner and admin of the whole workspace. You stay an admin; only the new owner can
            give the ownership back.
          </p>
        </ConfirmDialog>
      )}
    </Section>
  )
}
