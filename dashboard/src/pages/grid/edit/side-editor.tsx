import { useState } from 'react'
import { Button } from '../../../parts/button.tsx'
import { Dialog } from '../../../parts/dialog.tsx'
import { Note } from '../../../parts/note.tsx'
import type { GridEnvironment, GridRow } from '../cells.ts'
import type { Editing } from '../grid-state.ts'
import type { Grid } from '../use-grid.ts'
import { AboutSecret } from './about-secret.tsx'
import { slotKey } from './edits.ts'
import { useOpenText } from './open-text.ts'
import { Reminder } from './reminder.tsx'
import { checkValue } from './value-check.ts'
import { ValueField } from './value-field.tsx'

type SideProps = {
  readonly ws: string
  readonly prj: string
  readonly grid: Grid
  readonly row: GridRow
  readonly environment: GridEnvironment
  readonly environments: readonly GridEnvironment[]
  readonly editing: Editing
  readonly isTyped: boolean
  readonly onClose: () => void
}

type Draft = Editing & {
  /** The text before any change; absent if it was typed in the cell. */
  readonly start?: string
}

/** One value with room for several lines, one's own value beside the shared one, and what is known about the secret. */
export function SideEditor({ ws, prj, grid, row, environment, environments, editing, isTyped, onClose }: SideProps) {
  const canWrite = grid.view.canWriteIn(environment.id)
  const [drafts, setDrafts] = useState<readonly Draft[]>([isTyped ? editing : withStart(editing)])
  const [isPersonal, setPersonal] = useState(editing.isPersonal)
  const draft = drafts.find((one) => one.isPersonal === isPersonal)
  useOpenText(drafts.some((one) => one.text !== one.start))
  const hasOwn = row.cells.get(environment.id)?.personal !== undefined

  function write(text: string): void {
    setDrafts((before) => before.map((one) => (one.isPersonal === isPersonal ? { ...one, text } : one)))
  }

  async function choose(personal: boolean): Promise<void> {
    setPersonal(personal)
    if (drafts.some((one) => one.isPersonal === personal)) return
    const next = await grid.draft(row, environment.id, personal)
    if (next) setDrafts((before) => [...before.filter((one) => one.isPersonal !== personal), withStart(next)])
    else setPersonal(!personal)
  }

  function keep(): void {
    for (const one of drafts) {
      // Keeping a draft as it is creates an empty value, or one's own beside the shared one. A draft that was only looked at
      // does nothing, and neither does one of a value that is about to be removed.
      const isWanted = one.isPersonal === isPersonal && !grid.view.edits.values.has(slotKey(one))
      if (one.text !== one.start || isWanted) grid.keep(one, one.text)
    }
    onClose()
  }

  function removeOwn(): void {
    const baseVersion = row.cells.get(environment.id)?.personal?.version ?? 0
    grid.keep({ secretId: row.id, environmentId: environment.id, isPersonal: true, text: '', baseVersion }, null)
    onClose()
  }

  const actions = (
    <>
      {hasOwn && isPersonal && (
        <Button kind="danger" onClick={removeOwn}>
          Remove my value
        </Button>
      )}
      <span className="flex-1" />
      <Button onClick={onClose}>Cancel</Button>
      <Button kind="primary" disabled={!draft} onClick={keep}>
        Keep change
      </Button>
    </>
  )
  return (
    <Dialog
      title={`${row.name} in ${environment.name}`}
      kind="drawer"
      isOpen
      keepsOpen
      onClose={onClose}
      actions={actions}
    >
      {environment.hasPersonalOverrides && canWrite && (
        <fieldset className="choice">
          <legend className="sr-only">Whose value</legend>
          <Whose label="For everyone" isChosen={!isPersonal} onChoose={() => void choose(false)} />
          <Whose label="Just for me" isChosen={isPersonal} onChoose={() => void choose(true)} />
        </fieldset>
      )}
      {!canWrite && <Note>This value is just for you. Everybody else keeps the shared one.</Note>}
      {draft && (
        <ValueField
          key={String(isPersonal)}
          label={isPersonal ? 'Your own value' : 'Value'}
          text={draft.text}
          error={checkValue(draft.text, row.dataType)}
          onText={write}
          rows={grid.rows}
          environments={environments}
          own={{ name: row.name, environmentId: environment.id }}
        />
      )}
      {canWrite && !row.isFresh && (
        <>
          <Reminder ws={ws} prj={prj} row={row} environment={environment} />
          <AboutSecret ws={ws} prj={prj} row={row} />
        </>
      )}
    </Dialog>
  )
}

const withStart = (editing: Editing): Draft => ({ ...editing, start: editing.text })

type WhoseProps = { readonly label: string; readonly isChosen: boolean; readonly onChoose: () => void }

function Whose({ label, isChosen, onChoose }: WhoseProps) {
  return (
    <label>
      <input type="radio" name="whose" checked={isChosen} onChange={onChoose} />
      {label}
    </label>
  )
}
