/** Sets up an authenticator app: password, QR code, a code of the app, and the recovery codes, which are shown once. */
import type { TotpEnrolment } from '@coffer/sdk'
import { useState } from 'react'
import { api } from '../../api/client.ts'
import { CopyButton } from '../../parts/copy.tsx'
import { TextField } from '../../parts/field.tsx'
import { fieldError } from '../../parts/field-error.ts'
import { FormDialog } from '../../parts/form-dialog.tsx'
import { OwnPassword } from './own-password.tsx'
import { QrCode } from './qr-code.tsx'
import { RecoveryCodes } from './recovery-codes.tsx'

type Step =
  | { readonly at: 'password' }
  | { readonly at: 'app'; readonly enrolment: TotpEnrolment }
  | { readonly at: 'codes'; readonly codes: readonly string[] }

export function EnrolDialog({ onClose }: { readonly onClose: () => void }) {
  const [step, setStep] = useState<Step>({ at: 'password' })
  if (step.at === 'password') {
    const enrol = async (password: string) => setStep({ at: 'app', enrolment: await api.me.enrolTotp({ password }) })
    return <AskPassword onClose={onClose} enrol={enrol} />
  }
  if (step.at === 'app') {
    const confirm = async (code: string) =>
      setStep({ at: 'codes', codes: (await api.me.confirmTotp({ code })).recoveryCodes })
    return <ConfirmApp enrolment={step.enrolment} onClose={onClose} confirm={confirm} />
  }
  return <RecoveryCodes codes={step.codes} onClose={onClose} />
}

const stay = () => undefined

type AskPasswordProps = { readonly onClose: () => void; readonly enrol: (password: string) => Promise<void> }

function AskPassword({ onClose, enrol }: AskPasswordProps) {
  const [password, setPassword] = useState('')
  return (
    <FormDialog
      title="Set up an authenticator app"
      description="First confirm that it is you."
      action="Continue"
      onClose={onClose}
      onSaved={stay}
      save={() => enrol(password)}
      fields={['password']}
    >
      {(error) => <OwnPassword value={password} error={error} onChange={setPassword} />}
    </FormDialog>
  )
}

type ConfirmAppProps = {
  readonly enrolment: TotpEnrolment
  readonly onClose: () => void
  readonly confirm: (code: string) => Promise<void>
}

function ConfirmApp({ enrolment: { otpauthUri, secret }, onClose, confirm }: ConfirmAppProps) {
  const [code, setCode] = useState('')
  return (
    <FormDialog
      title="Scan this with your app"
      description="Any app for one-time codes works. Then type the code that it shows. All your other sessions are signed out."
      action="Turn on"
      onClose={onClose}
      onSaved={stay}
      save={() => confirm(code.trim())}
      fields={['code']}
    >
      {(error) => (
        <>
          <QrCode text={otpauthUri} label="QR code for your authenticator app" />
          <div className="settings-row">
            <TextField
              label="Or type this key into the app"
              readOnly
              className="font-mono"
              value={secret.replace(/(.{4})(?=.)/g, '$1 ')}
            />
            <CopyButton text={secret} label="Copy the key" />
          </div>
          <TextField
            label="Code"
            required
            autoFocus
            inputMode="numeric"
            autoComplete="one-time-code"
            placeholder="000000"
            className="font-mono"
            value={code}
            error={fieldError(error, 'code')}
            onChange={({ target }) => setCode(target.value)}
          />
        </>
      )}
    </FormDialog>
  )
}
