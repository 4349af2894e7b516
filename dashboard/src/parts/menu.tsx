/** A button that opens a menu. Until somebody uses it, it is the button alone: a grid has hundreds of them. */
import { useState } from 'react'
import { lazyPart, useLazyPart } from './lazy-part.ts'
import type { MenuProps } from './opened-menu.tsx'

export type { MenuEntry } from './opened-menu.tsx'

const openedMenu = lazyPart(async () => (await import('./opened-menu.tsx')).OpenedMenu)

export function Menu(props: MenuProps) {
  const { label, trigger, className = 'button quiet', id, tabIndex = 0 } = props
  const [isUsed, setUsed] = useState(false)
  const OpenedMenu = useLazyPart(openedMenu, isUsed)
  if (OpenedMenu) return <OpenedMenu {...props} />
  return (
    <button
      type="button"
      className={className}
      id={id}
      tabIndex={tabIndex}
      aria-label={label}
      aria-haspopup="menu"
      aria-expanded="false"
      onClick={() => setUsed(true)}
    >
      {trigger}
    </button>
  )
}
