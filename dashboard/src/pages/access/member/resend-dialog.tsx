import type { IssuedInvite, Member } from '@coffer/sdk'
import { useState } from 'react'
import { resendInvite } from '../../../api/member.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { LinkDialog } from './invite-dialog.tsx'

type ResendDialogProps = { readonly ws: string; readonly member: Member; readonly onClose: () => void }

export function ResendDialog({ ws, member, onClose }: ResendDialogProps) {
  const { email } = member.user
  const [issued, setIssued] = useState<IssuedInvite>()
  const resend = useAction(async () => setIssued(await resendInvite(ws, member.id)))
  if (issued) return <LinkDialog email={email} issued={issued} onClose={onClose} />
  const actions = (
    <>
      <Button disabled={resend.isBusy} onClick={onClose}>
        Cancel
      </Button>
      <Button kind="primary" isBusy={resend.isBusy} onClick={() => void resend.run()}>
        Make a new link
      </Button>
    </>
  )
  return (
    <Dialog title={`New link for ${email}`} isOpen isBusy={resend.isBusy} onClose={onClose} actions={actions}>
      <p>The invite gets a new link, valid for 7 days. The old link stops working.</p>
      <ErrorNote error={resend.error} />
    </Dialog>
  )
}
