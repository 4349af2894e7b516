import type { Policy, ShutOut } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { planPolicy, policyQuery, savePolicy } from '../../../api/policy.ts'
import { meQuery } from '../../../api/session.ts'
import { useAction } from '../../../parts/action.ts'
import { Button } from '../../../parts/button.tsx'
import { ConfirmDialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { CheckField, TextAreaField, TextField } from '../../../parts/field.tsx'
import { errorBeside, fieldError } from '../../../parts/field-error.ts'
import { Note } from '../../../parts/note.tsx'
import { Section, Skeleton } from '../../../parts/page.tsx'
import { say } from '../../../parts/toast.tsx'
import { type PolicyForm, toForm, toPolicy } from './policy-form.ts'
import { ShutOutList } from './shut-out-list.tsx'

export function PolicySection({ ws }: { readonly ws: string }) {
  const { data: policy, error } = useQuery(policyQuery(ws))
  return (
    <Section
      title="Policy"
      hint="Rules for everybody in this workspace, the owner included. They hold from the next request on."
    >
      <ErrorNote error={error} />
      {!policy && !error && <Skeleton rows={4} />}
      {policy && <PolicyFields ws={ws} policy={policy} />}
    </Section>
  )
}

const fieldNames = ['allowedIps', 'maxTokenDays', 'requireVerifiedEmail', 'sharing'] as const

function PolicyFields({ ws, policy }: { readonly ws: string; readonly policy: Policy }) {
  const [form, setForm] = useState(() => toForm(policy))
  const [shutOut, setShutOut] = useState<readonly ShutOut[]>()
  const [confirmed, setConfirmed] = useState<readonly ShutOut[]>()
  const wanted = toPolicy(form)
  const isChanged = JSON.stringify(wanted) !== JSON.stringify(toPolicy(toForm(policy)))

  function change(part: Partial<PolicyForm>): void {
    // The list is about the rules that were asked about.
    setShutOut(undefined)
    setForm({ ...form, ...part })
  }

  const save = async () => {
    await savePolicy(ws, wanted)
    setShutOut(undefined)
    say('The policy is saved.')
  }
  const ask = useAction(async () => setShutOut(await planPolicy(ws, wanted)))
  const submit = useAction(async () => {
    const found = await planPolicy(ws, wanted)
    if (found.length > 0) setConfirmed(found)
    else await save()
  })
  const error = submit.error ?? ask.error

  function send(event: FormEvent): void {
    event.preventDefault()
    ask.clear()
    void submit.run()
  }

  return (
    <form className="flex max-w-[560px] flex-col gap-4" onSubmit={send}>
      <CheckField
        label="People need a second factor"
        hint="Also for what their tokens do. Service accounts and identities are machines, and have none."
        checked={form.requireMfa}
        onChange={({ target }) => change({ requireMfa: target.checked })}
      />
      <CheckField
        label="People need a confirmed email address"
        checked={form.requireVerifiedEmail}
        onChange={({ target }) => change({ requireVerifiedEmail: target.checked })}
      />
      <OwnWarning form={form} />
      <TextAreaField
        label="Only from these addresses"
        hint="Addresses or ranges such as 192.0.2.0/24, for people and machines. Your own must be among them. Blank: from everywhere."
        rows={3}
        value={form.addresses}
        error={fieldError(error, 'allowedIps')}
        onChange={({ target }) => change({ addresses: target.value })}
      />
      <TextField
        label="Longest life of a token, in days"
        hint="Counted from its creation: older tokens stop working. Blank: no limit."
        type="number"
        min={1}
        max={3650}
        value={form.tokenDays}
        error={fieldError(error, 'maxTokenDays')}
        onChange={({ target }) => change({ tokenDays: target.value })}
      />
      <CheckField
        label="Secrets can be shared by a link"
        hint="If not, links that exist already do not open."
        checked={form.sharing}
        onChange={({ target }) => change({ sharing: target.checked })}
      />
      {form.sharing && (
        <>
          <TextField
            label="Longest life of a share, in days"
            hint="Shares that would live longer end earlier."
            type="number"
            required
            min={1}
            max={30}
            value={form.shareDays}
            onChange={({ target }) => change({ shareDays: target.value })}
          />
          <CheckField
            label="Only shares that are encrypted in the browser"
            hint="The service never has the key of such a share. Others do not open any more."
            checked={form.endToEndOnly}
            onChange={({ target }) => change({ endToEndOnly: target.checked })}
          />
        </>
      )}
      <ErrorNote error={fieldError(error, 'requireVerifiedEmail') ?? errorBeside(error, ...fieldNames)} />
      {shutOut && <ShutOutList shutOut={shutOut} />}
      <div className="flex flex-wrap gap-2">
        <Button isBusy={ask.isBusy} onClick={() => void ask.run()}>
          Who would be shut out?
        </Button>
        <Button type="submit" kind="primary" disabled={!isChanged} isBusy={submit.isBusy}>
          Save policy
        </Button>
      </div>
      <ConfirmDialog
        title="Save this policy?"
        isOpen={confirmed !== undefined}
        onClose={() => setConfirmed(undefined)}
        action="Save policy"
        onConfirm={save}
      >
        <ShutOutList shutOut={confirmed ?? []} />
      </ConfirmDialog>
    </form>
  )
}

/** The owner can enter again once they meet their own rules, but nobody can loosen these for them meanwhile. */
function OwnWarning({ form }: { readonly form: PolicyForm }) {
  const { data: me } = useQuery(meQuery)
  const lacks = [
    form.requireMfa && me?.mfa === false ? 'no second factor' : '',
    form.requireVerifiedEmail && me?.emailVerified === false ? 'no confirmed email address' : '',
  ].filter(Boolean)
  if (lacks.length === 0) return null
  return (
    <Note tone="warn">
      You have {lacks.join(' and ')} yourself: this would shut you out too.{' '}
      <Link className="link" to="/me">
        Set it up in your account
      </Link>{' '}
      first.
    </Note>
  )
}
