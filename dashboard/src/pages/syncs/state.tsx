import type { Sync } from '@coffer/sdk'
import { Badge } from '../../parts/badge.tsx'

const states = {
  draft: ['setup not finished', 'plain'],
  active: ['up to date', 'good'],
  paused: ['paused', 'plain'],
  failing: ['failing', 'warn'],
  needs_reauth: ['needs a new credential', 'bad'],
  blocked: ['needs you', 'bad'],
  removing: ['being removed', 'plain'],
} as const

export function SyncState({ sync }: { readonly sync: Pick<Sync, 'state' | 'lastRunAt' | 'lastError'> }) {
  if (sync.state === 'active' && sync.lastRunAt === null) return <Badge>first push is due</Badge>
  if (sync.state === 'active' && sync.lastError !== null) return <Badge tone="warn">left something alone</Badge>
  const [text, tone] = states[sync.state]
  return <Badge tone={tone}>{text}</Badge>
}
