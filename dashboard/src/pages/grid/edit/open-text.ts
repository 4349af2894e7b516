/** Texts that are being typed in an editor and are no edits yet. Leaving the page would lose them. */
import { useEffect } from 'react'

const open = new Set<symbol>()

export function useOpenText(isChanged: boolean): void {
  useEffect(() => {
    if (!isChanged) return
    const text = Symbol()
    open.add(text)
    return () => void open.delete(text)
  }, [isChanged])
}

export const hasOpenText = () => open.size > 0
