import type { Scope, TeamGroup } from '@coffer/sdk'
import { type KeyboardEvent, useMemo, useState } from 'react'
import { Icon } from '../icon.tsx'
import { grantableTree, type ScopeNode, type Tick, ticksOf, toggle } from './scope.ts'

type ScopeTreeProps = {
  readonly teams: readonly TeamGroup[]
  readonly own: Scope
  readonly value: Scope
  readonly onChange: (scope: Scope) => void
}

/** More projects than this are easier to find by typing. */
const filteredFrom = 12

/** Arrow keys walk over the visible lines and open and close them; Tab and Space work as everywhere. */
export function ScopeTree({ teams, own, value, onChange }: ScopeTreeProps) {
  const tree = useMemo(() => grantableTree(teams, own), [teams, own])
  const ticks = useMemo(() => ticksOf(tree, value), [tree, value])
  const [text, setText] = useState('')
  const [open, setOpen] = useState<ReadonlySet<string>>(() => firstOpen(tree, ticks))
  const count = tree.reduce((sum, { children }) => sum + children.length, 0)
  const shown = filterTree(tree, text.trim().toLowerCase())

  function setNodeOpen(id: string, isOpen: boolean): void {
    const next = new Set(open)
    if (isOpen) next.add(id)
    else next.delete(id)
    setOpen(next)
  }

  function onKeyDown(event: KeyboardEvent<HTMLElement>): void {
    if (!(event.target instanceof HTMLInputElement) || event.target.type !== 'checkbox') return
    const { id } = event.target.dataset
    const boxes = [...event.currentTarget.querySelectorAll<HTMLInputElement>('input[type=checkbox]')]
    const at = boxes.indexOf(event.target)
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined) boxes[at + step]?.focus()
    else if (id !== undefined && event.key === 'ArrowRight') setNodeOpen(id, true)
    else if (id !== undefined && event.key === 'ArrowLeft') setNodeOpen(id, false)
    else return
    event.preventDefault()
  }

  if (count === 0 && tree.length === 0) return <p className="hint">There are no projects yet.</p>
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: arrow keys are an addition; each line has its own controls
    <div className="scope-tree" onKeyDown={onKeyDown}>
      {count > filteredFrom && (
        <input
          type="search"
          className="scope-filter"
          aria-label="Filter teams and projects"
          placeholder="Filter"
          value={text}
          onChange={({ target }) => setText(target.value)}
        />
      )}
      <ul>
        {shown.map((node) => (
          <Line
            key={node.id}
            node={node}
            ticks={ticks}
            isOpen={({ id }) => open.has(id) || text.trim() !== ''}
            onOpen={setNodeOpen}
            onToggle={(id) => onChange(toggle(tree, value, id))}
          />
        ))}
      </ul>
      {shown.length === 0 && <p className="hint">No team or project is called that.</p>}
    </div>
  )
}

/** Teams are open if there are few, and a single project is; whatever is ticked in part is open, so that nothing granted is hidden. */
function firstOpen(tree: readonly ScopeNode[], ticks: ReadonlyMap<string, Tick>): ReadonlySet<string> {
  const teams = tree.length <= 3 ? tree : []
  const projects = tree.flatMap(({ children }) => children)
  const parts = [...tree, ...projects].filter(({ id }) => ticks.get(id) === 'part')
  return new Set([...teams, ...(projects.length === 1 ? projects : []), ...parts].map(({ id }) => id))
}

function filterTree(tree: readonly ScopeNode[], text: string): readonly ScopeNode[] {
  if (text === '') return tree
  const has = ({ name }: ScopeNode) => name.toLowerCase().includes(text)
  return tree.flatMap((team) => {
    const children = has(team) ? team.children : team.children.filter(has)
    return has(team) || children.length > 0 ? { ...team, children } : []
  })
}

type LineProps = {
  readonly node: ScopeNode
  readonly ticks: ReadonlyMap<string, Tick>
  readonly isOpen: (node: ScopeNode) => boolean
  readonly onOpen: (id: string, isOpen: boolean) => void
  readonly onToggle: (id: string) => void
}

const kindNames = { teams: 'team', projects: 'project', environments: 'environment' } as const

function Line({ node, ticks, isOpen, onOpen, onToggle }: LineProps) {
  const tick = ticks.get(node.id) ?? 'off'
  const isExpanded = isOpen(node)
  return (
    <li>
      <div className="scope-line">
        {node.children.length > 0 ? (
          <button
            type="button"
            className="scope-fold"
            aria-expanded={isExpanded}
            aria-label={`Parts of ${node.name}`}
            onClick={() => onOpen(node.id, !isExpanded)}
          >
            <Icon name="chevron" />
          </button>
        ) : (
          <span className="scope-fold" />
        )}
        <label className="check">
          <input
            type="checkbox"
            data-id={node.id}
            checked={tick === 'on'}
            ref={(box) => {
              if (box) box.indeterminate = tick === 'part'
            }}
            onChange={() => onToggle(node.id)}
          />
          <span>
            {node.name} <span className="scope-kind">{kindNames[node.kind]}</span>
          </span>
        </label>
      </div>
      {isExpanded && node.children.length > 0 && (
        <ul>
          {node.children.map((child) => (
            <Line key={child.id} node={child} ticks={ticks} isOpen={isOpen} onOpen={onOpen} onToggle={onToggle} />
          ))}
        </ul>
      )}
    </li>
  )
}
