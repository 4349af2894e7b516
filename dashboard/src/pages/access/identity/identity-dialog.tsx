import type { Identity, IdentityPreset, Scope, TeamGroup } from '@coffer/sdk'
import { type FormEvent, useState } from 'react'
import { changeIdentity, createIdentity } from '../../../api/identity.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { CheckField, TextField } from '../../../parts/field.tsx'
import { errorBeside, fieldError } from '../../../parts/field-error.ts'
import { Note } from '../../../parts/note.tsx'
import { isNothing } from '../../../parts/scope/scope.ts'
import { ScopeField } from '../../../parts/scope/scope-field.tsx'
import { PermissionField } from '../permission-field.tsx'
import { ClaimsField } from './claims-field.tsx'
import {
  fieldsOfIdentity,
  fieldsOfPreset,
  type IdentityFields,
  placeholdersLeft,
  toNewIdentity,
} from './identity-form.ts'

type IdentityDialogProps = {
  readonly ws: string
  readonly teams: readonly TeamGroup[]
  readonly own: Scope
  /** A new identity begins with a template. */
  readonly from: { readonly preset: IdentityPreset } | { readonly identity: Identity }
  readonly onSaved: (identity: Identity, isNew: boolean) => void
  readonly onClose: () => void
}

const shownFields = ['name', 'issuer', 'audience', 'subject', 'claims', 'scope'] as const

export function IdentityDialog({ ws, teams, own, from, onSaved, onClose }: IdentityDialogProps) {
  const preset = 'preset' in from ? from.preset : undefined
  const identity = 'identity' in from ? from.identity : undefined
  const [fields, setFields] = useState(() =>
    'preset' in from ? fieldsOfPreset(from.preset) : fieldsOfIdentity(from.identity),
  )
  const change = (part: Partial<IdentityFields>) => setFields({ ...fields, ...part })
  const placeholders = placeholdersLeft(preset, fields)
  const save = useAction(async () => {
    const rules = toNewIdentity(fields)
    const saved = identity ? await changeIdentity(ws, identity.id, rules) : await createIdentity(ws, rules)
    onSaved(saved, !identity)
  })
  const error = (field: (typeof shownFields)[number]) => fieldError(save.error, field)
  const text = (field: 'name' | 'issuer' | 'audience' | 'subject') => ({
    value: fields[field],
    error: error(field),
    onChange: ({ target }: { target: HTMLInputElement }) => change({ [field]: target.value }),
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    void save.run()
  }

  const isIncomplete = isNothing(fields.scope) || placeholders.length > 0
  const actions = (
    <>
      <Button disabled={save.isBusy} onClick={onClose}>
        Cancel
      </Button>
      <Button type="submit" form="identity" kind="primary" isBusy={save.isBusy} disabled={isIncomplete}>
        {identity ? 'Save' : 'Create identity'}
      </Button>
    </>
  )
  return (
    <Dialog
      title={identity ? `Identity ${identity.name}` : 'New identity'}
      description={preset?.description}
      isOpen
      keepsOpen
      isBusy={save.isBusy}
      onClose={onClose}
      actions={actions}
    >
      <form id="identity" onSubmit={submit} className="flex flex-col gap-4">
        <TextField label="Name" required maxLength={64} {...text('name')} />
        <TextField
          label="Issuer"
          required
          type="url"
          maxLength={500}
          className="font-mono"
          hint="Exactly as the token has it in iss."
          {...text('issuer')}
        />
        <TextField
          label="Audience"
          required
          maxLength={255}
          className="font-mono"
          hint="The token must be made for this audience; the address of this Coffer is a good one."
          {...text('audience')}
        />
        <TextField
          label="Subject (optional)"
          maxLength={500}
          className="font-mono"
          hint="The token’s sub, exactly or with * for any text. Set a subject, claims or both."
          {...text('subject')}
        />
        <ClaimsField value={fields.claims} error={error('claims')} onChange={(claims) => change({ claims })} />
        {placeholders.length > 0 && <Note tone="warn">Still to replace: {placeholders.join(', ')}.</Note>}
        <PermissionField value={fields.permission} canWrite onChange={(permission) => change({ permission })} />
        <ScopeField
          teams={teams}
          own={own}
          value={fields.scope}
          error={error('scope')}
          onChange={(scope) => change({ scope })}
        />
        <CheckField
          label="Enabled"
          hint="A disabled identity is refused, and access through it ends at once."
          checked={fields.enabled}
          onChange={({ target }) => change({ enabled: target.checked })}
        />
        <ErrorNote error={errorBeside(save.error, ...shownFields)} />
      </form>
    </Dialog>
  )
}
