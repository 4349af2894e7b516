import type { Grant, Member, Scope, TeamGroup } from '@coffer/sdk'
import { type FormEvent, useState } from 'react'
import { changeMember } from '../../../api/member.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { errorBeside, fieldError } from '../../../parts/field-error.ts'
import { Note } from '../../../parts/note.tsx'
import { say } from '../../../parts/toast.tsx'
import { isIncomplete } from '../grant/grants.ts'
import { GrantsField } from '../grant/grants-field.tsx'

type MemberDialogProps = {
  readonly ws: string
  readonly member: Member
  readonly isSelf: boolean
  readonly teams: readonly TeamGroup[]
  readonly own: Scope
  readonly onClose: () => void
}

/** Changes the grants of a member, or those that an invite offers. */
export function MemberDialog({ ws, member, isSelf, teams, own, onClose }: MemberDialogProps) {
  const [grants, setGrants] = useState<readonly Grant[]>(member.grants)
  const { email } = member.user
  const save = useAction(async () => {
    await changeMember(ws, member.id, { grants: [...grants] })
    say(`The access of ${email} has changed.`)
    onClose()
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    void save.run()
  }

  const actions = (
    <>
      <Button disabled={save.isBusy} onClick={onClose}>
        Cancel
      </Button>
      <Button type="submit" form="member" kind="primary" isBusy={save.isBusy} disabled={isIncomplete(grants)}>
        Save
      </Button>
    </>
  )
  return (
    <Dialog title={`Access of ${email}`} isOpen keepsOpen isBusy={save.isBusy} onClose={onClose} actions={actions}>
      <form id="member" onSubmit={submit} className="flex flex-col gap-4">
        {isSelf && (
          <Note tone="warn">This is you. If you take rights from yourself, another admin must return them.</Note>
        )}
        <GrantsField
          holder="person"
          teams={teams}
          own={own}
          value={grants}
          error={fieldError(save.error, 'scope')}
          onChange={setGrants}
        />
        <p className="hint">It takes effect with the next request, for sessions and tokens alike.</p>
        <ErrorNote error={errorBeside(save.error, 'scope')} />
      </form>
    </Dialog>
  )
}
