import { Menu as Base } from '@base-ui/react/menu'
import type { ReactNode } from 'react'
import './menu.css'

export type MenuEntry = {
  readonly text: string
  readonly onSelect: () => void
  readonly kind?: 'normal' | 'danger'
  readonly isChecked?: boolean
}

export type MenuProps = {
  /** Names the button for screen readers if its content is an icon. */
  readonly label?: string
  readonly className?: string
  /** Id and tab index of the button, for a place that moves the focus itself. */
  readonly id?: string
  readonly tabIndex?: number
  readonly trigger: ReactNode
  /** Groups are separated by a line. */
  readonly groups: readonly (readonly MenuEntry[])[]
}

/** The menu behind a button that has just been used, so it begins open. */
export function OpenedMenu({ label, trigger, className = 'button quiet', id, tabIndex = 0, groups }: MenuProps) {
  return (
    <Base.Root defaultOpen>
      <Base.Trigger className={className} id={id} tabIndex={tabIndex} aria-label={label}>
        {trigger}
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner sideOffset={4} align="end">
          <Base.Popup className="menu">
            {groups
              .filter((group) => group.length > 0)
              .map((group) => (
                <Base.Group key={group[0]?.text} className="menu-group">
                  {group.map((entry) => (
                    <MenuLine key={entry.text} entry={entry} />
                  ))}
                </Base.Group>
              ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}

function MenuLine({ entry: { text, onSelect, kind = 'normal', isChecked } }: { readonly entry: MenuEntry }) {
  if (isChecked === undefined) {
    return (
      <Base.Item className={`menu-item ${kind}`} onClick={onSelect}>
        {text}
      </Base.Item>
    )
  }
  return (
    <Base.CheckboxItem className={`menu-item ${kind}`} checked={isChecked} onCheckedChange={onSelect}>
      {text}
    </Base.CheckboxItem>
  )
}
