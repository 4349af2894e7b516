import type { Identity, IdentityPreset, TeamGroup } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import { changeIdentity, deleteIdentity, identitiesQuery, presetsQuery } from '../../api/identity.ts'
import { useRights } from '../../api/use-rights.ts'
import { projectsQuery } from '../../api/workspace.ts'
import { useAction } from '../../parts/action.ts'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { Snippet } from '../../parts/copy.tsx'
import { ConfirmDialog, Dialog } from '../../parts/dialog.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { Icon } from '../../parts/icon.tsx'
import { Menu, type MenuEntry } from '../../parts/menu.tsx'
import { EmptyState, Skeleton } from '../../parts/page.tsx'
import { plural } from '../../parts/plural.ts'
import { everything, scopeInWords } from '../../parts/scope/scope.ts'
import { Table } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { say } from '../../parts/toast.tsx'
import { AccessPage, ManagersOnly } from './access-page.tsx'
import { IdentityDialog } from './identity/identity-dialog.tsx'
import { identitySnippet } from './identity/identity-snippets.ts'
import { TestDialog } from './identity/test-dialog.tsx'
import { permissionName } from './permission-field.tsx'
import { examplePlace } from './token/token-snippets.ts'
import './identity/identity.css'

export function Identities() {
  const { canManageWorkspace } = useRights()
  return canManageWorkspace ? <IdentityList /> : <ManagersOnly what="identities" />
}

type Step =
  | { readonly kind: 'presets' }
  | { readonly kind: 'create'; readonly preset: IdentityPreset }
  | { readonly kind: 'change' | 'test' | 'use' | 'delete'; readonly identity: Identity }

const route = getRouteApi('/signed-in/$ws')

function IdentityList() {
  const { ws } = route.useParams()
  const { data: teams = [] } = useQuery(projectsQuery(ws))
  const identities = useQuery(identitiesQuery(ws))
  const [step, setStep] = useState<Step>()
  const close = () => setStep(undefined)
  const isEmpty = identities.data?.length === 0
  const tiles = <PresetTiles ws={ws} onChoose={(preset) => setStep({ kind: 'create', preset })} />
  const form = { ws, teams, own: everything, onClose: close }
  const onSaved = (identity: Identity, isNew: boolean) => {
    say(isNew ? `The identity ${identity.name} is ready.` : `The identity ${identity.name} has changed.`)
    setStep(isNew ? { kind: 'use', identity } : undefined)
  }
  const action = !isEmpty && (
    <Button kind="primary" onClick={() => setStep({ kind: 'presets' })}>
      New identity
    </Button>
  )
  return (
    <AccessPage actions={action}>
      <ErrorNote error={identities.error} />
      {identities.isPending && <Skeleton />}
      {isEmpty && (
        <div className="identity-start">
          <EmptyState title="No identities yet">
            <p>
              Pipelines and pods can prove who they are with the token of their platform, so that no credential is
              stored with them. Where do yours run?
            </p>
          </EmptyState>
          {tiles}
        </div>
      )}
      {identities.data && !isEmpty && (
        <Table label="Identities" columns={['Name', 'Issuer and rules', 'Permission', 'Scope', 'Last used', '']}>
          {identities.data.map((identity) => (
            <IdentityRow key={identity.id} ws={ws} identity={identity} teams={teams} onStep={setStep} />
          ))}
        </Table>
      )}
      {step?.kind === 'presets' && (
        <Dialog title="New identity" kind="wide" description="Where does it run?" isOpen onClose={close}>
          {tiles}
        </Dialog>
      )}
      {step?.kind === 'create' && <IdentityDialog {...form} from={step} onSaved={onSaved} />}
      {step?.kind === 'change' && <IdentityDialog {...form} from={step} onSaved={onSaved} />}
      {step?.kind === 'test' && <TestDialog ws={ws} identity={step.identity} onClose={close} />}
      {step?.kind === 'use' && <UseDialog identity={step.identity} teams={teams} onClose={close} />}
      {step?.kind === 'delete' && <DeleteDialog ws={ws} identity={step.identity} onClose={close} />}
    </AccessPage>
  )
}

function PresetTiles({ ws, onChoose }: { ws: string; onChoose: (preset: IdentityPreset) => void }) {
  const presets = useQuery(presetsQuery(ws))
  return (
    <>
      <ErrorNote error={presets.error} />
      {presets.isPending && <Skeleton rows={3} />}
      <div className="preset-tiles">
        {presets.data?.map((preset) => (
          <button key={preset.id} type="button" className="preset-tile" onClick={() => onChoose(preset)}>
            <b>{preset.name}</b>
            <span className="hint">{preset.description}</span>
          </button>
        ))}
      </div>
    </>
  )
}

type RowProps = {
  readonly ws: string
  readonly identity: Identity
  readonly teams: readonly TeamGroup[]
  readonly onStep: (step: Step) => void
}

function IdentityRow({ ws, identity, teams, onStep }: RowProps) {
  const { id, name, issuer, subject, claims, permission, scope, enabled, lastUsedAt } = identity
  const toggle = useAction(async () => {
    await changeIdentity(ws, id, { enabled: !enabled })
    say(enabled ? `${name} is disabled: access through it has ended.` : `${name} is enabled.`)
  })
  const entry = (text: string, kind: 'change' | 'test' | 'use' | 'delete'): MenuEntry => {
    return { text, onSelect: () => onStep({ kind, identity }), kind: kind === 'delete' ? 'danger' : 'normal' }
  }
  const groups = [
    [entry('Test a token', 'test'), entry('How to use it', 'use'), entry('Edit', 'change')],
    [{ text: enabled ? 'Disable' : 'Enable', onSelect: () => void toggle.run() }],
    [entry('Delete', 'delete')],
  ]
  const rules = Object.keys(claims).length
  return (
    <tr>
      <th scope="row">
        {name} {!enabled && <Badge tone="warn">disabled</Badge>}
        <ErrorNote error={toggle.error} />
      </th>
      <td className="max-w-[420px]">
        <span className="block truncate font-mono text-s" title={issuer}>
          {issuer.replace(/^https:\/\//, '')}
        </span>
        <span className="hint truncate" title={subject ?? undefined}>
          {[subject, rules > 0 && plural(rules, 'claim')].filter(Boolean).join(', ')}
        </span>
      </td>
      <td>{permissionName(permission)}</td>
      <td>{scopeInWords(scope, teams)}</td>
      <td className="text-soft whitespace-nowrap">{lastUsedAt === null ? 'never' : <Time at={lastUsedAt} />}</td>
      <td className="text-right">
        <Menu label={`Actions for ${name}`} trigger={<Icon name="more" />} groups={groups} />
      </td>
    </tr>
  )
}

type UseDialogProps = {
  readonly identity: Identity
  readonly teams: readonly TeamGroup[]
  readonly onClose: () => void
}

function UseDialog({ identity, teams, onClose }: UseDialogProps) {
  const { workspace } = useRights()
  const { title, hint, text } = identitySnippet(identity, examplePlace(workspace, identity.scope, teams))
  return (
    <Dialog title={`Use ${identity.name}`} kind="wide" description={hint} isOpen onClose={onClose}>
      <Snippet label={title} text={text} />
      <p className="hint">
        If a job is refused, test its token with this identity: the result says which rule does not match.
      </p>
    </Dialog>
  )
}

function DeleteDialog({ ws, identity, onClose }: { ws: string; identity: Identity; onClose: () => void }) {
  const { id, name, lastUsedAt } = identity
  return (
    <ConfirmDialog
      title={`Delete ${name}`}
      isOpen
      onClose={onClose}
      action="Delete"
      onConfirm={async () => {
        await deleteIdentity(ws, id)
        say(`The identity ${name} is deleted.`)
      }}
    >
      <p>
        Tokens of its issuer no longer give access through <b>{name}</b>, and access that it gave ends at once.
      </p>
      {lastUsedAt === null ? (
        <p>It has never been used.</p>
      ) : (
        <p>
          It was last used <Time at={lastUsedAt} />.
        </p>
      )}
    </ConfirmDialog>
  )
}
