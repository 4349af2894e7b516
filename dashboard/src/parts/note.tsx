import type { ReactNode } from 'react'
import './note.css'

type NoteProps = { readonly tone?: 'plain' | 'warn' | 'good' | 'bad'; readonly children: ReactNode }

/** A remark beside the thing that it is about. */
export function Note({ tone = 'plain', children }: NoteProps) {
  return <div className={`note ${tone}`}>{children}</div>
}
