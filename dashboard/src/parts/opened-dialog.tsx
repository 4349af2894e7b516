import { Dialog as Base } from '@base-ui/react/dialog'
import { type ReactNode, useRef } from 'react'
import { Icon } from './icon.tsx'
import './dialog.css'

export type DialogProps = {
  readonly title: string
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly description?: ReactNode
  readonly children?: ReactNode
  /** Buttons; the main one comes last. */
  readonly actions?: ReactNode
  /** Wide dialogs hold tables; a drawer keeps the page visible beside it. */
  readonly kind?: 'normal' | 'wide' | 'drawer'
  /** A click beside it does not close it: for forms, and for values that are shown only once. */
  readonly keepsOpen?: boolean
  /** Something is being saved: what comes of it must be seen, so nothing closes it meanwhile. */
  readonly isBusy?: boolean
}

export function OpenedDialog({ title, isOpen, onClose, description, children, actions, ...rest }: DialogProps) {
  const { kind = 'normal', keepsOpen = false, isBusy = false } = rest
  const popup = useRef<HTMLDivElement>(null)
  // The button that closes comes first in the page, but the first field is what a person came for.
  const firstField = () => popup.current?.querySelector<HTMLElement>('.content :is(input, select, textarea)') ?? true
  return (
    <Base.Root open={isOpen} disablePointerDismissal={keepsOpen} onOpenChange={(open) => !open && !isBusy && onClose()}>
      <Base.Portal>
        {/* A dialog on top of a drawer sets itself off from it too. */}
        <Base.Backdrop className="backdrop" forceRender />
        <Base.Popup ref={popup} className={`dialog ${kind}`} initialFocus={firstField}>
          <header>
            <Base.Title>{title}</Base.Title>
            <Base.Close className="button quiet" aria-label="Close">
              <Icon name="close" />
            </Base.Close>
          </header>
          <div className="content">
            {description && <Base.Description className="text-soft">{description}</Base.Description>}
            {children}
          </div>
          {actions && <footer>{actions}</footer>}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}
