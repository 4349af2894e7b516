import type { ComponentProps, ReactNode } from 'react'
import './button.css'

export type ButtonProps = ComponentProps<'button'> & {
  /** Each page has one primary button. */
  readonly kind?: 'primary' | 'plain' | 'quiet' | 'danger'
  /** Shows progress and ignores clicks. It stays focusable: a disabled button would lose the focus for good. */
  readonly isBusy?: boolean
  readonly children: ReactNode
}

export function Button({
  kind = 'plain',
  isBusy = false,
  className = '',
  type = 'button',
  onClick,
  ...rest
}: ButtonProps) {
  return (
    <button
      {...rest}
      type={type}
      className={`button ${kind} ${className}`}
      aria-busy={isBusy || undefined}
      aria-disabled={isBusy || undefined}
      onClick={isBusy ? (event) => event.preventDefault() : onClick}
    />
  )
}
