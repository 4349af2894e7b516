import type { AccessActor, ExplainQuery } from '@coffer/sdk'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { explanationQuery } from '../../../api/access.ts'
import { Badge } from '../../../parts/badge.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { SelectField } from '../../../parts/field.tsx'
import { Skeleton } from '../../../parts/page.tsx'
import type { Right } from './access-table.ts'

export type Asked = {
  readonly actor: AccessActor
  readonly project: { readonly id: string; readonly name: string }
  readonly environment: { readonly id: string; readonly name: string }
  readonly right: Right | undefined
}

type Action = ExplainQuery['action']

/** What people ask about an environment. The first one that a right allows is the one to start with. */
const actions: readonly { readonly action: Action; readonly name: string; readonly right?: Right }[] = [
  { action: 'secret:read', name: 'Read secrets', right: 'read' },
  { action: 'secret:write', name: 'Write secrets', right: 'write' },
  { action: 'share:write', name: 'Share secrets by a link' },
  { action: 'environment:write', name: 'Change the environment', right: 'admin' },
  { action: 'sync:write', name: 'Set up syncs' },
]

type ExplanationDrawerProps = { readonly ws: string; readonly asked: Asked; readonly onClose: () => void }

/** Why somebody may do something in an environment, or may not. The service decides as it does for a request. */
export function ExplanationDrawer({ ws, asked, onClose }: ExplanationDrawerProps) {
  const { actor, project, environment, right = 'read' } = asked
  const [action, setAction] = useState<Action>(
    () => actions.find((one) => one.right === right)?.action ?? 'secret:read',
  )
  const question = { actor: actor.id, action, project: project.id, environment: environment.id }
  const { data: explanation, error } = useQuery(explanationQuery(ws, question))
  const [answer, ...facts] = explanation?.reasons ?? []
  return (
    <Dialog title={`${actor.name} in ${environment.name} of ${project.name}`} kind="drawer" isOpen onClose={onClose}>
      <SelectField
        label="Can they …?"
        value={action}
        onChange={({ target }) => setAction(actions.find((one) => one.action === target.value)?.action ?? action)}
      >
        {actions.map((one) => (
          <option key={one.action} value={one.action}>
            {one.name}
          </option>
        ))}
      </SelectField>
      <ErrorNote error={error} />
      {!explanation && !error && <Skeleton rows={3} />}
      <div aria-live="polite" className="flex flex-col gap-3">
        {explanation && (
          <>
            <p className="flex flex-wrap items-center gap-2">
              {explanation.allowed ? <Badge tone="good">yes</Badge> : <Badge tone="bad">no</Badge>}
              {!explanation.allowed && (
                <span className="text-soft">A request would get the status {explanation.status}.</span>
              )}
            </p>
            <p>{answer}</p>
            <ul className="flex flex-col gap-2 text-soft">
              {facts.map((fact) => (
                <li key={fact}>{fact}</li>
              ))}
            </ul>
          </>
        )}
      </div>
    </Dialog>
  )
}
