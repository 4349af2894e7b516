import type { IssuedInvite, Scope, TeamGroup } from '@coffer/sdk'
import { type FormEvent, useState } from 'react'
import { invite } from '../../../api/member.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { CopyButton } from '../../../parts/copy.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { TextField } from '../../../parts/field.tsx'
import { errorBeside, fieldError } from '../../../parts/field-error.ts'
import { everything, isNothing } from '../../../parts/scope/scope.ts'
import { ScopeField } from '../../../parts/scope/scope-field.tsx'
import { absoluteTime } from '../../../parts/time.tsx'
import { RoleField } from './role-field.tsx'

type InviteDialogProps = {
  readonly ws: string
  readonly teams: readonly TeamGroup[]
  readonly own: Scope
  readonly onClose: () => void
}

const newInvite = { email: '', role: 'developer', scope: everything } as const

/** Rendered while it is open, so that closing drops everything, the link included. */
export function InviteDialog({ ws, teams, own, onClose }: InviteDialogProps) {
  const [fields, setFields] = useState<Parameters<typeof invite>[1] & { scope: Scope }>(newInvite)
  const [issued, setIssued] = useState<IssuedInvite>()
  const send = useAction(async () => setIssued(await invite(ws, fields)))

  function submit(event: FormEvent): void {
    event.preventDefault()
    void send.run()
  }

  if (issued) return <LinkDialog email={fields.email} issued={issued} onClose={onClose} />
  const actions = (
    <>
      <Button disabled={send.isBusy} onClick={onClose}>
        Cancel
      </Button>
      <Button type="submit" form="invite" kind="primary" isBusy={send.isBusy} disabled={isNothing(fields.scope)}>
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
          value={fields.email}
          error={fieldError(send.error, 'email')}
          onChange={({ target }) => setFields({ ...fields, email: target.value })}
        />
        <RoleField value={fields.role ?? 'member'} onChange={(role) => setFields({ ...fields, role })} />
        <ScopeField
          teams={teams}
          own={own}
          value={fields.scope}
          error={fieldError(send.error, 'scope')}
          onChange={(scope) => setFields({ ...fields, scope })}
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
