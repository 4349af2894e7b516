import type { ReactNode } from 'react'
import './badge.css'

type BadgeProps = { readonly tone?: 'plain' | 'warn' | 'good' | 'bad' | 'accent'; readonly children: ReactNode }

export function Badge({ tone = 'plain', children }: BadgeProps) {
  return <span className={`badge ${tone}`}>{children}</span>
}
