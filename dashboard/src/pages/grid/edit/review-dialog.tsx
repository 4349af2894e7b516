import { ApiError } from '@coffer/sdk'
import { useState } from 'react'
import { refreshProject, refreshRights } from '../../../api/refresh.ts'
import { writeBatch } from '../../../api/secret.ts'
import { Badge } from '../../../parts/badge.tsx'
import { Button } from '../../../parts/button.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { ErrorNote } from '../../../parts/error-note.tsx'
import { TextField } from '../../../parts/field.tsx'
import { plural } from '../../../parts/plural.ts'
import { say } from '../../../parts/toast.tsx'
import { isProduction } from '../../plan/production.ts'
import type { GridEnvironment } from '../cells.ts'
import type { Grid } from '../use-grid.ts'
import { type ChangeLine, summarise, toBatch } from './batch.ts'
import { ConflictList } from './conflict-list.tsx'
import { listNames } from './save-bar.tsx'
import './review.css'

type ReviewProps = {
  readonly ws: string
  readonly prj: string
  readonly environments: readonly GridEnvironment[]
  readonly grid: Grid
  readonly onClose: () => void
}

/** Everything that is about to be saved, by environment, without values. One request saves all of it or nothing. */
export function ReviewDialog({ ws, prj, environments, grid, onClose }: ReviewProps) {
  const { edits, storedById, conflicts, dispatch } = grid
  const [message, setMessage] = useState('')
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>({})
  /** The summary of what is being saved, from the click until the grid shows it. */
  const [saving, setSaving] = useState<ReturnType<typeof summarise>>()
  const [error, setError] = useState<unknown>()
  const isBusy = saving !== undefined
  const summary = saving ?? summarise(edits.now, storedById, environments)
  const { count, renames, touched } = summary
  // A personal value changes nothing for anybody else.
  const guarded = touched.filter(
    ({ environment, lines }) => isProduction(environment.name) && lines.some(({ isPersonal }) => !isPersonal),
  )
  const isConfirmed = guarded.every(({ environment: { id, name } }) => typed[id] === name)
  const [first] = environments

  async function save(): Promise<void> {
    if (!first) return
    setSaving(summary)
    setError(undefined)
    try {
      await writeBatch(ws, prj, toBatch(edits.now, storedById, first.id, message.trim()))
      // Before the refresh: next to the new versions, the edits would look like conflicts.
      dispatch({ type: 'saved' })
      await refreshProject(ws, prj)
      const names = touched.map(({ environment }) => environment.name)
      say(`Saved ${plural(count, 'change')}${names.length > 0 ? ` in ${listNames(names)}` : ''}.`)
      grid.followSaved(edits.now)
      onClose()
    } catch (cause) {
      setError(cause)
      // The new versions show which changes somebody else has overtaken.
      if (cause instanceof ApiError && [403, 404, 409, 412].includes(cause.status)) {
        await Promise.all([refreshProject(ws, prj), cause.status === 403 && refreshRights()])
      }
    } finally {
      setSaving(undefined)
    }
  }

  const actions = (
    <>
      <Button disabled={isBusy} onClick={onClose}>
        Back
      </Button>
      <Button
        kind="primary"
        isBusy={isBusy}
        disabled={!isConfirmed || conflicts.length > 0 || count === 0}
        onClick={save}
      >
        Save {plural(count, 'change')}
      </Button>
    </>
  )
  // Once the conflicts behind it are settled, a refusal says nothing any more.
  const isSettled = error instanceof ApiError && error.status === 412 && conflicts.length === 0
  return (
    <Dialog title="Review changes" kind="wide" isOpen keepsOpen isBusy={isBusy} onClose={onClose} actions={actions}>
      <ConflictList ws={ws} prj={prj} environments={environments} grid={grid} />
      {renames.length > 0 && <Changes title="All environments" lines={renames} />}
      {touched.map(({ environment, lines }) => (
        <Changes key={environment.id} title={environment.name} lines={lines} />
      ))}
      {count === 0 && <p className="text-soft">Nothing is left to save.</p>}
      {count > 0 && (
        <TextField
          label="Message"
          hint="Optional, for the history. Do not write values here."
          maxLength={512}
          value={message}
          onChange={(event) => setMessage(event.target.value)}
        />
      )}
      {guarded.map(({ environment: { id, name } }) => (
        <TextField
          key={id}
          label={`Type ${name} to confirm`}
          value={typed[id] ?? ''}
          onChange={(event) => setTyped({ ...typed, [id]: event.target.value })}
        />
      ))}
      {conflicts.length === 0 && !isSettled && <ErrorNote error={error} />}
    </Dialog>
  )
}

const signs = { added: '+', changed: '~', removed: '−', renamed: '→' } as const

function Changes({ title, lines }: { readonly title: string; readonly lines: readonly ChangeLine[] }) {
  return (
    <section className="review">
      <h3>
        {title} <span>{countKinds(lines)}</span>
      </h3>
      <ul>
        {lines.map(({ name, to, kind, isPersonal }) => (
          <li key={`${name} ${isPersonal}`} className={kind}>
            <b aria-hidden="true">{signs[kind]}</b>
            <span className="sr-only">{kind}</span>
            <code>{name}</code>
            {to !== undefined && (
              <>
                <span className="text-soft">becomes</span>
                <code>{to}</code>
              </>
            )}
            {(kind === 'added' || kind === 'changed') && (
              <span className="text-faint" aria-hidden="true">
                ••••••••
              </span>
            )}
            {isPersonal && <Badge>just for you</Badge>}
          </li>
        ))}
      </ul>
    </section>
  )
}

function countKinds(lines: readonly ChangeLine[]): string {
  const kinds = Map.groupBy(lines, ({ kind }) => kind)
  return [...kinds].map(([kind, some]) => `${some.length} ${kind}`).join(', ')
}
