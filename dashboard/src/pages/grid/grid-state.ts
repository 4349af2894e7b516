/** Words of the grid's parts: a place, what is being edited, and the overlay on top. */
import type { Project } from '@coffer/sdk'
import type { GridEnvironment, GridRow, ReferenceIndex, Target } from './cells.ts'
import type { Conflict } from './edit/batch.ts'
import type { Edits, Slot } from './edit/edits.ts'
import type { Shows } from './reveal.ts'

/** The row of the column titles. */
export const headRow = 'head'

/** A cell to focus. Without an environment it is in the column of names. */
export type Place = { readonly rowId: string; readonly environmentId?: string | undefined }

export const placeId = ({ rowId, environmentId = 'name' }: Place) =>
  `cell-${rowId}-${environmentId}`.replaceAll(' ', '-')

/** A value that is edited in its cell. */
export type Editing = Slot & {
  readonly text: string
  /** The stored text, if there is one. */
  readonly original?: string | undefined
  /** The version that was read for this edit. Saving must not overwrite a later one. */
  readonly baseVersion: number
}

/** State that all rows share. It changes as a whole, so that rows can be compared cheaply. */
export type GridView = {
  readonly edits: Edits
  readonly shown: Shows
  readonly busy: ReadonlySet<string>
  readonly conflicts: ReadonlyMap<string, Conflict>
  readonly editing: Editing | undefined
  readonly renaming: string | undefined
  readonly index: ReferenceIndex
  /** Whether this person writes shared values in an environment. */
  readonly canWriteIn: (environmentId: string) => boolean
  /** Renames and deletes whole secrets. */
  readonly canChangeSecrets: boolean
}

export type Overlay =
  /** A typed text was brought along from the cell. */
  | { readonly kind: 'value'; readonly editing: Editing; readonly isTyped?: true }
  | { readonly kind: 'new' | 'review' | 'keys' | 'use' }
  | { readonly kind: 'import'; readonly text?: string }
  | { readonly kind: 'history'; readonly row: GridRow; readonly environmentId: string | undefined }
  | { readonly kind: 'reveal-column'; readonly environment: GridEnvironment }
  | { readonly kind: 'trash'; readonly row: GridRow }

/** Stable for the life of the page. */
export type GridActions = {
  activate(place: Place): void
  reveal(row: GridRow, environmentId: string): void
  copy(row: GridRow, environmentId: string): void
  copyName(row: GridRow): void
  edit(row: GridRow, environmentId: string): void
  /** Takes back an edit whose value is still being read. */
  cancelEdit(): void
  /** Ends the edit in the cell; without a text nothing changes. Focus moves by `move` columns, or stays where it is. */
  endEdit(text: string | undefined, move?: -1 | 0 | 1): void
  /** Edits in the side editor. */
  editAside(row: GridRow, environmentId: string): void
  /** Goes on in the side editor, with the text so far. */
  openEditor(text: string): void
  remove(row: GridRow, environmentId: string): void
  /** Takes back a new secret, or asks before an existing one is deleted. */
  removeSecret(row: GridRow): void
  startRename(row: GridRow): void
  endRename(row: GridRow, to: string | undefined, move?: 0): void
  goTo(target: Target): void
  open(overlay: Overlay): void
}

/** Readers of an environment change their own values where these are allowed; its writers also the shared ones. */
export const canEdit = ({ canWriteIn }: Pick<GridView, 'canWriteIn'>, environment: GridEnvironment) =>
  canWriteIn(environment.id) || environment.hasPersonalOverrides

export type GridWorkspaceProps = {
  readonly ws: string
  readonly prj: string
  readonly project: Project
  readonly rows: readonly GridRow[]
  readonly environments: readonly GridEnvironment[]
  /** The last refresh failed: the rows may be old. */
  readonly error: unknown
}
