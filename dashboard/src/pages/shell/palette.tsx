/** Goes anywhere by name: pages, projects, secrets and workspaces. Secrets are found by name; values are never read. */
import { Autocomplete } from '@base-ui/react/autocomplete'
import { Dialog } from '@base-ui/react/dialog'
import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { findWorkspace } from '../../api/right.ts'
import { searchQuery } from '../../api/secret-search.ts'
import { projectsQuery, workspacesQuery } from '../../api/workspace.ts'
import { Icon } from '../../parts/icon.tsx'
import { useSettled } from '../../parts/settled.ts'
import {
  type Entry,
  type EntryGroup,
  pages,
  projectEntries,
  projectPages,
  secretEntries,
  workspaceEntries,
} from './palette-entries.ts'
import './palette.css'

export function Palette({ onClose }: { readonly onClose: () => void }) {
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const groups = useGroups(text.trim())
  const isInWorkspace = useParams({ strict: false }).ws !== undefined
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog palette" aria-label="Go to">
          <Autocomplete.Root
            open
            inline
            items={groups}
            value={text}
            onValueChange={setText}
            autoHighlight="always"
            keepHighlight
          >
            <div className="palette-input">
              <Icon name="search" />
              <Autocomplete.Input
                aria-label="Go to"
                placeholder={isInWorkspace ? 'Go to a project, a secret or a page' : 'Go to a workspace'}
              />
              <Dialog.Close className="button quiet" aria-label="Close">
                <Icon name="close" />
              </Dialog.Close>
            </div>
            <Autocomplete.Empty className="palette-empty">
              Nothing that you can see has “{text}” in its name.
            </Autocomplete.Empty>
            <Autocomplete.List className="palette-list">
              {(group: EntryGroup) => (
                <Autocomplete.Group key={group.value} items={group.items}>
                  <Autocomplete.GroupLabel className="palette-label">{group.value}</Autocomplete.GroupLabel>
                  <Autocomplete.Collection>
                    {(entry: Entry) => (
                      <Autocomplete.Item
                        key={entry.value}
                        value={entry}
                        className="palette-item"
                        onClick={() => {
                          onClose()
                          void navigate({ href: entry.value })
                        }}
                      >
                        <span className={group.value === 'Secrets' ? 'truncate font-mono' : 'truncate'}>
                          {entry.label}
                        </span>
                        {entry.hint && <span className="palette-hint">{entry.hint}</span>}
                      </Autocomplete.Item>
                    )}
                  </Autocomplete.Collection>
                </Autocomplete.Group>
              )}
            </Autocomplete.List>
          </Autocomplete.Root>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

const maxSecrets = 12

function useGroups(text: string): readonly EntryGroup[] {
  const { ws = '', prj } = useParams({ strict: false })
  const { data: workspaces = [] } = useQuery(workspacesQuery)
  const workspace = findWorkspace(workspaces, ws)
  const { data: teams = [] } = useQuery({ ...projectsQuery(ws), enabled: workspace !== undefined })
  const q = useSettled(text)
  const isSearching = workspace !== undefined && q !== ''
  const search = useInfiniteQuery({ ...searchQuery(ws, q), enabled: isSearching })
  const found = isSearching ? (search.data?.pages.flatMap(({ items }) => items).slice(0, maxSecrets) ?? []) : []
  const groups = [
    workspace && prj !== undefined ? projectPages(prj, ws, workspace, teams) : undefined,
    projectEntries(ws, teams),
    secretEntries(ws, found),
    pages(ws, workspace),
    workspaceEntries(workspaces.filter((one) => one !== workspace)),
  ]
  return groups.filter((group) => group !== undefined).filter(({ items }) => items.length > 0)
}
