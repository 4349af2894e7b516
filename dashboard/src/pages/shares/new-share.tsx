import type { IssuedShare } from '@coffer/sdk'
import { useMutation, useSuspenseQuery } from '@tanstack/react-query'
import { type FormEvent, useId, useState } from 'react'
import { canSealHere, createShare, type Shared } from '../../api/share.ts'
import { useProjectRights } from '../../api/use-rights.ts'
import { projectQuery } from '../../api/workspace.ts'
import { Button } from '../../parts/button.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { CheckField, SelectField, TextAreaField, TextField } from '../../parts/field.tsx'
import { errorBeside, fieldError } from '../../parts/field-error.ts'
import { plural } from '../../parts/plural.ts'
import { absoluteTime } from '../../parts/time.tsx'
import { type PickedSecret, SecretPicker } from './secret-picker.tsx'

type NewShareProps = {
  readonly place: { readonly ws: string; readonly prj: string }
  readonly onClose: () => void
}

const lifetimes = [
  [3_600, '1 hour'],
  [86_400, '1 day'],
  [7 * 86_400, '7 days'],
  [30 * 86_400, '30 days'],
] as const

export function NewShareDialog({ place, onClose }: NewShareProps) {
  const [issued, setIssued] = useState<IssuedShare>()
  if (issued) return <Issued share={issued} onClose={onClose} />
  return <NewShareForm place={place} onClose={onClose} onIssued={setIssued} />
}

function Issued({ share, onClose }: { readonly share: IssuedShare; readonly onClose: () => void }) {
  return (
    <Dialog
      title="Send this link"
      isOpen
      keepsOpen
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>Done</Button>
          <CopyButton kind="primary" text={share.url}>
            Copy link
          </CopyButton>
        </>
      }
    >
      <TextField
        label="Link of the share"
        readOnly
        className="font-mono"
        value={share.url}
        onFocus={({ target }) => target.select()}
        hint="Shown only now. Everybody who has it can open the share."
      />
      <p>
        It can be opened {share.maxViews === 1 ? 'once' : plural(share.maxViews, 'time')}, until{' '}
        {absoluteTime(share.expiresAt)}. Opening the page uses up nothing; pressing “Show” does.
      </p>
    </Dialog>
  )
}

type FormProps = NewShareProps & { readonly onIssued: (share: IssuedShare) => void }

function NewShareForm({ place, onClose, onIssued }: FormProps) {
  const id = useId()
  const { data: project } = useSuspenseQuery(projectQuery(place.ws, place.prj))
  const { canWriteIn } = useProjectRights()
  const environments = project.environments.filter(({ id }) => canWriteIn(id))
  const [kind, setKind] = useState<'secrets' | 'text'>('secrets')
  const [environmentId, setEnvironmentId] = useState(environments[0]?.id ?? '')
  const [picked, setPicked] = useState<readonly PickedSecret[]>([])
  const [text, setText] = useState('')
  const [label, setLabel] = useState('')
  const [password, setPassword] = useState('')
  const [expiresIn, setExpiresIn] = useState<number>(lifetimes[1][0])
  const [maxViews, setMaxViews] = useState('1')
  const [wantsSealing, setWantsSealing] = useState(true)

  // A reference is filled in by the service, which leaves personal values out; here it would be filled in with them.
  const hasReferences = kind === 'secrets' && picked.some((secret) => secret.hasReferences)
  const isSealedHere = wantsSealing && canSealHere() && !hasReferences
  const isEmpty = kind === 'text' ? text === '' : picked.length === 0
  const create = useMutation({
    mutationFn: () => {
      const shared: Shared = kind === 'text' ? { text } : { secrets: picked, environmentId }
      const name =
        label ||
        (kind === 'text'
          ? ''
          : picked
              .map(({ name }) => name)
              .join(', ')
              .slice(0, maxLabelLength))
      const limits = { expiresIn, maxViews: Number(maxViews), ...(name && { label: name }) }
      return createShare(place, shared, { ...limits, ...(password && { password }) }, isSealedHere)
    },
    // The link with its key must not stay in the cache.
    gcTime: 0,
    onSuccess: onIssued,
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    create.mutate()
  }

  const actions = (
    <>
      <Button disabled={create.isPending} onClick={onClose}>
        Cancel
      </Button>
      <Button type="submit" form={id} kind="primary" isBusy={create.isPending} disabled={isEmpty}>
        Create the link
      </Button>
    </>
  )
  return (
    <Dialog title="New share" isOpen keepsOpen isBusy={create.isPending} onClose={onClose} actions={actions}>
      <form id={id} onSubmit={submit} className="flex flex-col gap-4">
        <SelectField
          label="Share"
          value={kind}
          onChange={(event) => setKind(event.target.value === 'text' ? 'text' : 'secrets')}
        >
          <option value="secrets">Secrets of this project</option>
          <option value="text">A text of your own</option>
        </SelectField>
        {kind === 'text' ? (
          <TextAreaField label="Text" required value={text} onChange={(event) => setText(event.target.value)} />
        ) : (
          <>
            <SelectField
              label="Environment"
              value={environmentId}
              onChange={(event) => {
                setEnvironmentId(event.target.value)
                setPicked([])
              }}
            >
              {environments.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </SelectField>
            <SecretPicker place={place} environmentId={environmentId} picked={picked} onPick={setPicked} />
          </>
        )}
        <div className="grid grid-cols-2 gap-3">
          <SelectField
            label="Ends after"
            value={expiresIn}
            error={fieldError(create.error, 'expiresIn')}
            onChange={(event) => setExpiresIn(Number(event.target.value))}
          >
            {lifetimes.map(([seconds, name]) => (
              <option key={seconds} value={seconds}>
                {name}
              </option>
            ))}
          </SelectField>
          <TextField
            label="Views"
            type="number"
            min={1}
            max={100}
            required
            value={maxViews}
            onChange={(event) => setMaxViews(event.target.value)}
          />
        </div>
        <TextField
          label="Password (optional)"
          hint="Tell it to the reader in another way, such as by phone."
          type="password"
          autoComplete="new-password"
          value={password}
          onChange={(event) => setPassword(event.target.value)}
        />
        <TextField
          label="Label (optional)"
          hint="For your own list; the reader does not see it."
          maxLength={maxLabelLength}
          value={label}
          onChange={(event) => setLabel(event.target.value)}
        />
        <CheckField
          label="Encrypt in this browser"
          hint={sealingHint(hasReferences)}
          checked={isSealedHere}
          disabled={hasReferences || !canSealHere()}
          onChange={(event) => setWantsSealing(event.target.checked)}
        />
        <ErrorNote error={errorBeside(create.error, 'expiresIn')} />
      </form>
    </Dialog>
  )
}

const maxLabelLength = 100

function sealingHint(hasReferences: boolean): string {
  if (!canSealHere()) return 'Not possible: this page came without https. The service encrypts the share instead.'
  if (hasReferences) return 'Not possible: a chosen secret has references, which the service fills in.'
  return 'The service never gets the key: it is only in the link.'
}
