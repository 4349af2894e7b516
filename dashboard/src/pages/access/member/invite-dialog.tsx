import type { Grant, IssuedInvite, Scope, TeamGroup } from '@coffer/sdk'
import { type FormEvent, useState } from 'react'
import { invite } from '../../../api/member.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { CopyButton } from '../../../parts/copy.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { TextField } from '../../../parts/field.tsx'
import { errorBeside, fieldError } from '../../../parts/field-error.ts'
import { everything } from '../../../parts/scope/scope.ts'
import { absoluteTime } from '../../../parts/time.tsx'
import { isIncomplete } from '../grant/grants.ts'
import { GrantsField } from '../grant/grants-field.tsx'

type InviteDialogProps = {
  readonly ws: string
  readonly teams: readonly TeamGroup[]
  readonly own: Scope
  readonly onClose: () => void
}

const firstGrants: readonly Grant[] = [{ role: 'developer', scope: everything }]

/** Rendered while it is open, so that closing drops everything, the link included. */
export function InviteDialog({ ws, teams, own, onClose }: InviteDialogProps) {
  const [email, setEmail] = useState('')
  const [grants, setGrants] = useState(firstGrants)
  const [issued, setIssued] = useState<IssuedInvite>()
  const send = useAction(async () => setIssued(await invite(ws, { email, grants: [...grants] })))

  function submit(event: FormEvent): void {
    event.preventDefault()
    void send.run()
  }

  if (issued) return <LinkDialog email={email} issued={issued} onClose={onClose} />
  const actions = (
    <>
      <Button disabled={send.isBusy} onClick={onClose}>
        Cancel
      </Button>
      <Button type="submit" form="invite" kind="primary" isBusy={send.isBusy} disabled={isIncomplete(grants)}>
        Invite
      </Button>
    </>
  )
  return (
    <Dialog title="Invite a person" isOpen keepsOpen isBusy={send.isBusy} onClose={onClose} actions={actions}>
      <form id="invite" onSubmit={submit} className="flex flex-col gap-4">
        <TextField
          label="Email"
          type="email"
          required
          autoFocus
          maxLength={254}
          value={email}
          error={fieldError(send.error, 'email')}
          onChange={({ target }) => setEmail(target.value)}
        />
        <GrantsField
          holder="person"
          teams={teams}
          own={own}
          value={grants}
          error={fieldError(send.error, 'scope')}
          onChange={setGrants}
        />
        <ErrorNote error={errorBeside(send.error, 'email', 'scope')} />
      </form>
    </Dialog>
  )
}

type LinkDialogProps = { readonly email: string; readonly issued: IssuedInvite; readonly onClose: () => void }

/** The link is shown here and nowhere again. */
export function LinkDialog({ email, issued, onClose }: LinkDialogProps) {
  return (
    <Dialog
      title={`Invite for ${email}`}
      isOpen
      keepsOpen
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Done</Button>
          <CopyButton kind="primary" text={issued.inviteUrl}>
            Copy link
          </CopyButton>
        </>
      }
    >
      <TextField
        label="Invite link"
        readOnly
        className="font-mono"
        value={issued.inviteUrl}
        onFocus={({ target }) => target.select()}
        hint={`Shown only now. It works once, until ${absoluteTime(issued.expiresAt)}, for this address alone.`}
      />
      <p>
        {issued.mail === 'off'
          ? 'No mail was sent, because this service has no mail server: pass the link on yourself.'
          : `A mail with a link of its own is on its way to ${email}. The link above is for passing on yourself; either works.`}
      </p>
    </Dialog>
  )
}
