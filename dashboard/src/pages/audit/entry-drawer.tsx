import type { AuditEntry } from '@coffer/sdk'
import type { ReactNode } from 'react'
import { Badge } from '../../parts/badge.tsx'
import { Snippet } from '../../parts/copy.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { absoluteTime } from '../../parts/time.tsx'
import { typeName } from './filter.ts'

type EntryDrawerProps = {
  readonly entry: AuditEntry
  /** The project and environment in words. */
  readonly place: string
  readonly onClose: () => void
}

export function EntryDrawer({ entry, place, onClose }: EntryDrawerProps) {
  const { actor, entity, before, after, details } = entry
  return (
    <Dialog
      title={`${entry.action.toLowerCase()} ${typeName(entity.type)} ${entity.name}`}
      kind="drawer"
      isOpen
      onClose={onClose}
    >
      <dl className="entry">
        <Row name="Entry">{entry.sequence.toLocaleString('en')}</Row>
        <Row name="Time">
          <time dateTime={entry.at} title={entry.at}>
            {absoluteTime(entry.at)}
          </time>
        </Row>
        <Row name="Outcome">{entry.outcome === 'success' ? 'success' : <Badge tone="bad">refused</Badge>}</Row>
        <Row name="Actor">
          {actor.name} <span className="text-soft">({actor.type})</span>
          {details && (
            <span className="hint">
              {details.actorVerified ? 'The address was confirmed then.' : 'The address was not confirmed then.'}
            </span>
          )}
        </Row>
        <Row name="Actor id" isCode>
          {actor.id}
        </Row>
        <Row name={typeName(entity.type)} isCode>
          {entity.id}
        </Row>
        {place !== '' && <Row name="Place">{place}</Row>}
        <Row name="Address" isCode>
          {entry.ip}
        </Row>
        <Row name="Client" isCode>
          {entry.userAgent}
        </Row>
        <Row name="Request id" isCode>
          {entry.requestId}
        </Row>
        <Row name="Hash" isCode>
          {entry.hash}
        </Row>
      </dl>
      {before && <Details title="Before" fields={before} />}
      {after && <Details title="After" fields={after} />}
    </Dialog>
  )
}

type RowProps = { readonly name: string; readonly isCode?: boolean; readonly children: ReactNode }

function Row({ name, isCode = false, children }: RowProps) {
  if (children === '') return null
  return (
    <div>
      <dt>{name}</dt>
      <dd className={isCode ? 'font-mono' : ''}>{children}</dd>
    </div>
  )
}

function Details({ title, fields }: { readonly title: string; readonly fields: Record<string, unknown> }) {
  return (
    <section className="flex flex-col gap-1">
      <h3 className="text-s text-soft">{title}</h3>
      <Snippet label={title} text={JSON.stringify(fields, null, 2)} />
    </section>
  )
}
