/** Keys that work on every page: Ctrl+K opens the palette, and g with a letter goes to a page of the workspace. */

import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams } from '@tanstack/react-router'
import { createContext, lazy, type ReactNode, Suspense, useContext, useEffect, useRef, useState } from 'react'
import { findWorkspace, rightsIn } from '../../api/right.ts'
import { workspacesQuery } from '../../api/workspace.ts'
import { hasLetterKeys, isCovered, isTyping } from '../../parts/letter-keys.ts'

const Palette = lazy(async () => ({ default: (await import('./palette.tsx')).Palette }))

const OpenPalette = createContext<() => void>(() => undefined)
export const useOpenPalette = () => useContext(OpenPalette)

export function Shortcuts({ children }: { readonly children: ReactNode }) {
  const [isOpen, setOpen] = useState(false)
  const go = useGo()
  const hasG = useRef(false)
  useEffect(() => {
    function press(event: KeyboardEvent): void {
      const key = event.key.toLowerCase()
      if (key === 'k' && (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey) {
        event.preventDefault()
        setOpen(true)
        return
      }
      const isSecond = hasG.current
      hasG.current = false
      if (!isLetterKey(event)) return
      if (isSecond && go(key)) event.preventDefault()
      else hasG.current = key === 'g'
    }
    addEventListener('keydown', press)
    return () => removeEventListener('keydown', press)
  }, [go])
  return (
    <OpenPalette value={() => setOpen(true)}>
      {children}
      {isOpen && (
        <Suspense>
          <Palette onClose={() => setOpen(false)} />
        </Suspense>
      )}
    </OpenPalette>
  )
}

/** A letter that a field or an open overlay takes is none of ours. */
function isLetterKey(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false
  if (isTyping(event.target) || !hasLetterKeys()) return false
  return !isCovered()
}

/** Goes to the page of a letter, if there is one that this person may see. */
function useGo(): (key: string) => boolean {
  const navigate = useNavigate()
  const { ws } = useParams({ strict: false })
  const { data: workspaces = [] } = useQuery(workspacesQuery)
  const workspace = ws === undefined ? undefined : findWorkspace(workspaces, ws)
  return (key) => {
    if (ws === undefined || !workspace) return false
    const { canManageWorkspace } = rightsIn(workspace)
    const params = { ws }
    if (key === 'p') void navigate({ to: '/$ws', params })
    else if (key === 't') void navigate({ to: '/$ws/-/access/tokens', params })
    else if (key === 'a' && canManageWorkspace) void navigate({ to: '/$ws/-/audit', params })
    else if (key === 's' && canManageWorkspace) void navigate({ to: '/$ws/-/settings', params })
    else return false
    return true
  }
}
