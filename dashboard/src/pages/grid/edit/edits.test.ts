/** Unsaved changes: undo, what is sent, and what somebody else has overtaken. */
import type { Secret, SecretRow } from '@coffer/sdk'
import { describe, expect, test } from 'vitest'
import { type GridEnvironment, type GridRow, toRows } from '../cells.ts'
import { findConflicts, summarise, toBatch } from './batch.ts'
import { type EditAction, type EditState, freshId, noEdits, reduceEdits, type ValueEdit, withEdits } from './edits.ts'

const at = '2026-01-01T00:00:00.000Z'
const environments: GridEnvironment[] = ['dev', 'prod'].map((id) => ({ id, name: id, hasPersonalOverrides: true }))
const row = (environmentId: string, version: number, isPersonal = false): SecretRow => ({
  environmentId,
  isPersonal,
  version,
  updatedAt: at,
})
const secret = (id: string, name: string, ...values: SecretRow[]): Secret => ({
  ...{ id, name, note: '', type: 'runtime', dataType: 'text', createdAt: at, updatedAt: at, values },
})
const byId = (...secrets: Secret[]): Map<string, GridRow> => new Map(toRows(secrets).map((one) => [one.id, one]))
const edit = (
  secretId: string,
  environmentId: string,
  value: string | null,
  more: Partial<ValueEdit> = {},
): ValueEdit => ({
  ...{ secretId, environmentId, value, name: secretId.toUpperCase(), isPersonal: false, baseVersion: 1, ...more },
})
const run = (...actions: EditAction[]): EditState => actions.reduce(reduceEdits, noEdits)
const set = (one: ValueEdit, original?: string): EditAction => ({ type: 'set', edit: one, original })

describe('edits', () => {
  test('a second edit of a value keeps the version that the first one has seen', () => {
    const { now } = run(set(edit('a', 'dev', 'x', { baseVersion: 3 })), set(edit('a', 'dev', 'y', { baseVersion: 9 })))
    expect([...now.values.values()]).toMatchObject([{ value: 'y', baseVersion: 3 }])
  })

  test('typing the stored text, or removing what is missing, leaves no edit', () => {
    expect(run(set(edit('a', 'dev', 'x')), set(edit('a', 'dev', 'stored'), 'stored')).now.values.size).toBe(0)
    expect(run(set(edit('a', 'dev', null, { baseVersion: 0 }))).now.values.size).toBe(0)
  })

  test('a shared value and one’s own are edited apart', () => {
    const { now } = run(set(edit('a', 'dev', 'x')), set(edit('a', 'dev', 'y', { isPersonal: true })))
    expect(now.values.size).toBe(2)
  })

  test('undo goes back step by step, through discarding; saving ends it', () => {
    const two = run(set(edit('a', 'dev', 'x')), set(edit('b', 'dev', 'y')))
    const discarded = reduceEdits(two, { type: 'discard' })
    expect(discarded.now.values.size).toBe(0)
    const back = reduceEdits(discarded, { type: 'undo' })
    expect(back.now).toBe(two.now)
    expect(reduceEdits(back, { type: 'undo' }).now.values.size).toBe(1)
    expect(reduceEdits(reduceEdits(back, { type: 'saved' }), { type: 'undo' })).toBe(noEdits)
  })

  test('what changes nothing is no step', () => {
    const one = run(set(edit('a', 'dev', 'x')))
    expect(reduceEdits(one, set(edit('a', 'dev', 'x')))).toBe(one)
    expect(reduceEdits(one, { type: 'drop', slot: edit('b', 'dev', '') })).toBe(one)
    expect(reduceEdits(noEdits, { type: 'discard' })).toBe(noEdits)
    expect(reduceEdits(noEdits, { type: 'undo' })).toBe(noEdits)
  })

  test('a new secret stands among the others by name, and goes with its last value', () => {
    const id = freshId('B', noEdits.now.fresh)
    const value = edit(id, 'dev', 'x', { name: 'B', baseVersion: 0 })
    const state = run({ type: 'add', secret: { id, name: 'B', note: 'why' }, values: [value] })
    const rows = toRows([secret('a', 'A'), secret('c', 'C')])
    expect(withEdits(rows, state.now).map(({ name }) => name)).toEqual(['A', 'B', 'C'])
    expect(reduceEdits(state, { type: 'drop', slot: value }).now.fresh.size).toBe(0)
  })

  test('a new secret of the first name of another new one takes none of its values', () => {
    const add = (id: string, ...places: string[]): EditAction => ({
      ...{ type: 'add', secret: { id, name: 'A', note: '' } },
      values: places.map((place) => edit(id, place, id, { name: 'A', baseVersion: 0 })),
    })
    const first = freshId('A', noEdits.now.fresh)
    const renamed = run(add(first, 'dev', 'prod'), {
      ...{ type: 'rename', row: { id: first, name: 'A', isFresh: true }, to: 'B' },
    })
    const second = freshId('A', renamed.now.fresh)
    const { now } = reduceEdits(renamed, add(second, 'dev'))
    expect(toBatch(now, new Map(), 'dev', '').operations).toMatchObject([
      { key: 'B', environmentId: 'dev', value: first },
      { key: 'B', environmentId: 'prod', value: first },
      { key: 'A', environmentId: 'dev', value: second },
    ])
  })
})

describe('the batch', () => {
  const rows = byId(secret('a', 'A', row('dev', 4)), secret('b', 'B', row('dev', 2)))

  test('renames come first, values follow under the new name, and each is guarded by its version', () => {
    const { now } = run(
      set(edit('a', 'dev', 'x', { baseVersion: 4 })),
      set(edit('b', 'dev', null, { baseVersion: 2 })),
      { type: 'rename', row: { id: 'a', name: 'A', isFresh: false }, to: 'Z' },
      set(edit('a', 'prod', 'p', { baseVersion: 0, isPersonal: true })),
    )
    expect(toBatch(now, rows, 'dev', 'why')).toEqual({
      message: 'why',
      operations: [
        { op: 'rename', key: 'A', to: 'Z', environmentId: 'dev' },
        { op: 'set', key: 'Z', environmentId: 'dev', ifVersion: 4, value: 'x' },
        { op: 'delete', key: 'B', environmentId: 'dev', ifVersion: 2 },
        { op: 'set', key: 'Z', environmentId: 'prod', ifVersion: 0, isPersonal: true, value: 'p' },
      ],
    })
    expect(summarise(now, rows, environments)).toMatchObject({
      count: 4,
      renames: [{ name: 'A', to: 'Z' }],
      touched: [
        {
          environment: { id: 'dev' },
          lines: [
            { name: 'B', kind: 'removed' },
            { name: 'Z', kind: 'changed' },
          ],
        },
        { environment: { id: 'prod' }, lines: [{ name: 'Z', kind: 'added', isPersonal: true }] },
      ],
    })
  })

  test('a name is set free before another secret takes it, also a new one', () => {
    const rename = (id: string, name: string, to: string): EditAction => ({
      ...{ type: 'rename', row: { id, name, isFresh: false }, to },
    })
    const id = freshId('A', noEdits.now.fresh)
    const { now } = run(rename('a', 'A', 'C'), rename('b', 'B', 'D'), rename('a', 'A', 'B'), {
      ...{ type: 'add', secret: { id, name: 'A', note: '' } },
      values: [edit(id, 'dev', 'x', { name: 'A', baseVersion: 0 })],
    })
    expect(findConflicts(now, rows)).toEqual([])
    expect(toBatch(now, rows, 'dev', '').operations).toMatchObject([
      { op: 'rename', key: 'B', to: 'D' },
      { op: 'rename', key: 'A', to: 'B' },
      { op: 'set', key: 'A', ifVersion: 0 },
    ])
  })

  test('a rename of a secret that is gone is no change any more', () => {
    const { now } = run({ type: 'rename', row: { id: 'gone', name: 'GONE', isFresh: false }, to: 'NEW' })
    expect(summarise(now, rows, environments)).toMatchObject({ count: 0, renames: [] })
  })

  test('a secret that somebody else has renamed is written under its new name', () => {
    const { now } = run(set(edit('a', 'dev', 'x', { baseVersion: 4 })))
    const renamed = byId(secret('a', 'NEW', row('dev', 4)))
    expect(toBatch(now, renamed, 'dev', '').operations).toMatchObject([{ key: 'NEW' }])
    expect(findConflicts(now, renamed)).toEqual([])
  })

  test('the note of a new secret is sent once', () => {
    const id = freshId('N', noEdits.now.fresh)
    const values = ['dev', 'prod'].map((place) => edit(id, place, 'x', { name: 'N', baseVersion: 0 }))
    const { now } = run({ type: 'add', secret: { id, name: 'N', note: 'why' }, values })
    expect(toBatch(now, rows, 'dev', '').operations.map((one) => 'note' in one && one.note)).toEqual(['why', false])
  })
})

describe('conflicts', () => {
  const { now } = run(set(edit('a', 'dev', 'x', { baseVersion: 4 })))
  test.each([
    ['the version that was read', [secret('a', 'A', row('dev', 4))], undefined],
    ['an older list of cells', [secret('a', 'A', row('dev', 3))], undefined],
    ['a later version', [secret('a', 'A', row('dev', 5))], 'changed'],
    ['a removed value', [secret('a', 'A', row('prod', 1))], 'removed'],
    ['a deleted secret', [], 'gone'],
  ])('%s', (_, secrets, kind) => {
    expect(findConflicts(now, byId(...secrets))[0]?.kind).toBe(kind)
  })

  test('keeping one’s own edit rebases it, or makes the secret anew', () => {
    const slot = edit('a', 'dev', 'x')
    const kept = run(set(edit('a', 'dev', 'x', { baseVersion: 4 })), { type: 'rebase', slot, version: 7 })
    expect(findConflicts(kept.now, byId(secret('a', 'A', row('dev', 7))))).toEqual([])
    const revived = run(set(edit('a', 'dev', 'x', { baseVersion: 4 })), { type: 'revive', slot })
    expect(findConflicts(revived.now, byId())).toEqual([])
    expect(toBatch(revived.now, byId(), 'dev', '').operations).toEqual([
      { op: 'set', key: 'A', environmentId: 'dev', ifVersion: 0, value: 'x' },
    ])
  })

  test('a removal of what is gone already needs no more', () => {
    const slot = edit('a', 'dev', null)
    expect(run(set(edit('a', 'dev', null)), { type: 'rebase', slot, version: 0 }).now.values.size).toBe(0)
    expect(run(set(edit('a', 'dev', null)), { type: 'revive', slot }).now.values.size).toBe(0)
  })

  test('a name that somebody else took meanwhile is a conflict where they have a value', () => {
    const id = freshId('A', noEdits.now.fresh)
    const values = [
      edit(id, 'dev', 'x', { name: 'A', baseVersion: 0 }),
      edit(id, 'prod', 'x', { name: 'A', baseVersion: 0 }),
    ]
    const { now } = run({ type: 'add', secret: { id, name: 'A', note: '' }, values })
    expect(findConflicts(now, byId(secret('a', 'A', row('prod', 1)))).map(({ edit }) => edit.environmentId)).toEqual([
      'prod',
    ])
  })
})
