import { useState } from 'react'
import { Badge } from '../../parts/badge.tsx'
import { Button } from '../../parts/button.tsx'
import { plural } from '../../parts/plural.ts'
import { Table } from '../../parts/table.tsx'
import { ValueText } from '../../parts/value-text.tsx'
import { type ComparedKey, isPromotable, type KeyState, type Sides } from './comparison.ts'

export type DiffValues = Readonly<Record<string, { readonly from?: string; readonly to?: string }>>

type ComparisonTableProps = {
  readonly sides: Sides
  readonly keys: readonly ComparedKey[]
  readonly values: DiffValues | undefined
  /** Absent for people who may not promote. */
  readonly ticked?: ReadonlySet<string>
  readonly onTick?: (ticked: ReadonlySet<string>) => void
}

/** More rows are shown on demand: a table of thousands makes the page slow. */
const shownRows = 200

export function ComparisonTable({ sides, keys, values, ticked, onTick }: ComparisonTableProps) {
  const [limit, setLimit] = useState(shownRows)
  const promotable = keys.filter(isPromotable)
  const isEveryTicked = promotable.length > 0 && promotable.every(({ name }) => ticked?.has(name))

  function tick(names: readonly string[], isTicked: boolean): void {
    const changed = new Set(names)
    onTick?.(isTicked ? new Set([...(ticked ?? []), ...names]) : (ticked ?? new Set<string>()).difference(changed))
  }

  if (keys.length === 0) return <p className="text-soft">No key fits this filter.</p>
  const all = (
    <input
      type="checkbox"
      aria-label={`Tick all ${plural(promotable.length, 'key')}`}
      checked={isEveryTicked}
      disabled={promotable.length === 0}
      onChange={(event) =>
        tick(
          promotable.map(({ name }) => name),
          event.target.checked,
        )
      }
    />
  )
  return (
    <div className="compare-table">
      <Table
        label="Comparison"
        columns={[
          ...(onTick
            ? [
                <span key="all" className="pick">
                  {all}
                </span>,
              ]
            : []),
          'Key',
          sides.from.name,
          sides.to.name,
          'State',
        ]}
      >
        {keys.slice(0, limit).map((key) => (
          <tr key={key.name}>
            {onTick && (
              <td className="pick">
                {isPromotable(key) && (
                  <input
                    type="checkbox"
                    aria-label={key.name}
                    checked={ticked?.has(key.name) ?? false}
                    onChange={(event) => tick([key.name], event.target.checked)}
                  />
                )}
              </td>
            )}
            <th scope="row">{key.name}</th>
            <td className="value">
              <SideValue
                isThere={key.state !== 'extra'}
                value={values?.[key.name]?.from}
                label={`${key.name} in ${sides.from.name}`}
              />
            </td>
            <td className="value">
              <SideValue
                isThere={key.state !== 'missing'}
                value={values?.[key.name]?.to}
                label={`${key.name} in ${sides.to.name}`}
              />
            </td>
            <td>
              <StateBadge state={key.state} sides={sides} />
            </td>
          </tr>
        ))}
      </Table>
      {keys.length > limit && (
        <Button className="mt-3" onClick={() => setLimit(limit + shownRows)}>
          {`Show more (${plural(keys.length - limit, 'key')} left)`}
        </Button>
      )}
    </div>
  )
}

type SideValueProps = { readonly isThere: boolean; readonly value: string | undefined; readonly label: string }

function SideValue({ isThere, value, label }: SideValueProps) {
  if (!isThere) return <span className="compare-missing">missing</span>
  if (value !== undefined) return <ValueText value={value} label={label} />
  return (
    <>
      <span className="sr-only">hidden</span>
      <span className="compare-dots" aria-hidden="true">
        ••••••••
      </span>
    </>
  )
}

function StateBadge({ state, sides }: { readonly state: KeyState; readonly sides: Sides }) {
  switch (state) {
    case 'missing':
      return <Badge tone="accent">{`only in ${sides.from.name}`}</Badge>
    case 'different':
      return <Badge tone="warn">different</Badge>
    case 'extra':
      return <Badge>{`only in ${sides.to.name}`}</Badge>
    case 'same':
      return <Badge>same</Badge>
  }
}
