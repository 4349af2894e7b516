import { type ReactNode, useEffect, useState } from 'react'
import { Button, type ButtonProps } from './button.tsx'
import { Icon } from './icon.tsx'
import { say } from './toast.tsx'
import './copy.css'

type CopyProps = Omit<ButtonProps, 'children' | 'onClick'> & {
  /** A function is called at the click: a value that is read afresh never enters the page. */
  readonly text: string | (() => Promise<string>)
  readonly children?: ReactNode
  /** Said by screen readers, such as "Copy the token". */
  readonly label?: string
}

const doneMs = 1_500

export function CopyButton({ text, children = 'Copy', label, ...rest }: CopyProps) {
  const [isDone, setDone] = useState(false)
  useEffect(() => {
    if (!isDone) return
    const timer = setTimeout(() => setDone(false), doneMs)
    return () => clearTimeout(timer)
  }, [isDone])

  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(typeof text === 'string' ? text : await text())
      setDone(true)
      say('Copied.')
    } catch (error) {
      say(error instanceof DOMException ? 'The browser does not allow copying here.' : error, 'bad')
    }
  }

  return (
    <Button kind="quiet" {...rest} onClick={copy} aria-label={label}>
      <Icon name={isDone ? 'check' : 'copy'} />
      {children}
    </Button>
  )
}

/** Commands or configuration to take along, with a button that copies all of it. */
export function Snippet({ text, label }: { readonly text: string; readonly label: string }) {
  return (
    <div className="snippet">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <section tabIndex={0} aria-label={label}>
        <pre>{text}</pre>
      </section>
      <CopyButton text={text} label={`Copy: ${label}`} />
    </div>
  )
}
