import { queryClient } from '../../api/query-client.ts'
import { meQuery } from '../../api/session.ts'
import { Button } from '../../parts/button.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { download } from '../../parts/download.ts'
import { Icon } from '../../parts/icon.tsx'
import './me.css'

type RecoveryCodesProps = { readonly codes: readonly string[]; readonly onClose: () => void }

/** The account has the second factor already; closing this is the last that anybody sees of the codes. */
export function RecoveryCodes({ codes, onClose }: RecoveryCodesProps) {
  function close(): void {
    void queryClient.invalidateQueries({ queryKey: meQuery.queryKey })
    onClose()
  }

  const text = `${codes.join('\n')}\n`
  const actions = (
    <>
      <CopyButton text={text} label="Copy the recovery codes" kind="plain" />
      <Button onClick={() => download('coffer-recovery-codes.txt', text)}>
        <Icon name="download" />
        Download
      </Button>
      <Button kind="primary" onClick={close}>
        I have saved them
      </Button>
    </>
  )
  return (
    <Dialog
      title="Save your recovery codes"
      isOpen
      keepsOpen
      onClose={close}
      description="The app is set up. If you lose it, each of these codes signs you in once. They are shown only now: keep them where your password is not."
      actions={actions}
    >
      <ul className="recovery-codes" aria-label="Recovery codes">
        {codes.map((code) => (
          <li key={code}>{code}</li>
        ))}
      </ul>
    </Dialog>
  )
}
