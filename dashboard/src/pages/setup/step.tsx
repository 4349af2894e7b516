import { type ReactNode, useEffect, useRef } from 'react'
import { Icon } from '../../parts/icon.tsx'

type StepProps = {
  readonly number: 1 | 2 | 3
  readonly title: string
  readonly hint: string
  readonly children: ReactNode
}

/** Focus follows from step to step: to the first field or, in a step without one, to the heading. */
export function Step({ number, title, hint, children }: StepProps) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (number > 1 && document.activeElement === document.body) heading.current?.focus()
  }, [number])
  return (
    <>
      <title>{`${title} · Coffer`}</title>
      <header className="setup-head">
        <p className="setup-progress">
          <Icon name="coffer" />
          Coffer setup
          <span className="setup-count">{number} of 3</span>
        </p>
        <progress max={3} value={number} aria-label="Setup" />
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        <p className="text-soft">{hint}</p>
      </header>
      {children}
    </>
  )
}
