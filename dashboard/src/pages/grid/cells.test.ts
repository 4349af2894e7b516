// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references look like that
/** The pure parts of the grid: filters, references, completion, and how a cell looks. */
import type { Secret, SecretRow } from '@coffer/sdk'
import { expect, test } from 'vitest'
import { findReference, type GridEnvironment, nextReminder, toRows } from './cells.ts'
import { complete, insertName } from './edit/completion.ts'
import type { ValueEdit } from './edit/edits.ts'
import { checkName } from './edit/name-rule.ts'
import { checkValue } from './edit/value-check.ts'
import { filterRows, readFilter } from './filter/filter.ts'
import { viewCell } from './table/cell-view.ts'

const now = Date.parse('2026-06-01T00:00:00.000Z')
const environments: GridEnvironment[] = ['Dev', 'prod'].map((name) => ({ id: name, name, hasPersonalOverrides: true }))
const row = (environmentId: string, same: number, more: Partial<SecretRow> = {}): SecretRow => ({
  ...{ environmentId, same, isPersonal: false, version: 1, updatedAt: '2026-01-01T00:00:00.000Z' },
  ...{ isEmpty: false, references: [], ...more },
})
const secret = (name: string, ...values: SecretRow[]): Secret => ({
  ...{ id: name, name, note: '', type: 'runtime', dataType: 'text', createdAt: '', updatedAt: '', values },
})
const rows = toRows([
  secret('EQUAL', row('Dev', 1), row('prod', 1)),
  secret('OTHER', row('Dev', 1, { updatedAt: '2026-05-31T12:00:00.000Z' }), row('prod', 2)),
  secret('ONLY_DEV', row('Dev', 1, { references: ['EQUAL'] }), row('prod', 1, { isPersonal: true })),
])

test.each([
  [{ q: ' equ' }, 'EQUAL'],
  [{ missing: 'PROD' }, 'ONLY_DEV'],
  [{ differs: 'dev,prod' }, 'OTHER,ONLY_DEV'],
  [{ show: 'references' }, 'ONLY_DEV'],
  [{ since: '1d' }, 'OTHER'],
  [{ missing: 'gone', differs: 'dev', since: 'toString' }, 'EQUAL,OTHER,ONLY_DEV'],
])('the filter %j finds %s', (search, names) => {
  const found = filterRows(rows, readFilter(search, environments, now))
  expect(found.map(({ name }) => name).join()).toBe(names)
})

test('references lead to a cell, to another project, or nowhere', () => {
  const index = { rowsByName: new Map(rows.map((one) => [one.name, one])), environments }
  const find = (name: string) => findReference(name, 'Dev', index)
  expect(find('OTHER')).toEqual({ kind: 'cell', target: { secretId: 'OTHER', environmentId: 'Dev' } })
  expect(find('PROD.OTHER')).toEqual({ kind: 'cell', target: { secretId: 'OTHER', environmentId: 'prod' } })
  expect(find('shop.prod.X')).toEqual({ kind: 'elsewhere', project: 'shop', environment: 'prod', key: 'X' })
  for (const name of ['MISSING', 'gone.OTHER']) expect(find(name)).toEqual({ kind: 'unresolved' })
})

test('names are offered after ${, those of the environment before the dot, never the secret itself', () => {
  const own = { name: 'EQUAL', environmentId: 'Dev' }
  const offer = (text: string) => complete(text, text.length, rows, environments, own)?.names
  expect(offer('x ${')).toEqual(['OTHER', 'ONLY_DEV', 'prod.'])
  expect(offer('${prod.eq')).toEqual(['prod.EQUAL'])
  for (const text of ['x', '$${', '${A}', '${gone.']) expect(offer(text)).toBeUndefined()
  const completion = { start: 2, names: [] }
  expect(insertName('${ot}!', 4, completion, 'OTHER')).toEqual({ text: '${OTHER}!', caret: 8 })
  expect(insertName('${pr', 4, completion, 'prod.')).toEqual({ text: '${prod.', caret: 7 })
})

test('one’s own value covers the shared one; an edit is shown only while it is revealed', () => {
  const cell = { shared: row('Dev', 1), personal: row('Dev', 2, { isPersonal: true }) }
  const values = { shared: { text: 'all', version: 1 }, personal: { text: 'me', version: 1 } }
  const edit = (value: string | null, isPersonal: boolean): ValueEdit => ({
    ...{ secretId: 'A', name: 'A', environmentId: 'Dev', baseVersion: 1, value, isPersonal },
  })
  expect(viewCell(undefined, {}, undefined).state).toBe('missing')
  expect(viewCell(cell, {}, undefined)).toMatchObject({ state: 'hidden', isPersonal: true, text: '' })
  expect(viewCell(cell, {}, values)).toMatchObject({ state: 'shown', text: 'me' })
  expect(viewCell(cell, { personal: edit(null, true) }, values)).toMatchObject({ text: 'all', isPersonal: false })
  expect(viewCell({ shared: cell.shared }, { shared: edit(null, false) }, values).state).toBe('removed')
  expect(viewCell({ shared: cell.shared }, { shared: edit('new', false) }, undefined)).toMatchObject({
    ...{ state: 'hidden', text: '', isEdited: true },
  })
})

test('the next reminder of a row is the earliest', () => {
  const reminder = (day: string) => ({ reminder: { id: day, type: 'one_time' as const, nextReminderDate: day } })
  const [one] = toRows([secret('A', row('Dev', 1, reminder('2027')), row('prod', 1, reminder('2026')))])
  expect(one && nextReminder(one, environments)).toEqual({ at: '2026', environment: 'prod' })
})

test.each([
  ['', /name/],
  ['a b', /letters/],
  ['x'.repeat(256), /255/],
  ['01890000-0000-7000-8000-000000000000', /id/],
  ['trash', /reserved/],
  ['TAKEN', /exists/],
])('the name %j is refused', (name, reason) => {
  expect(checkName(name, (other) => other === 'TAKEN')).toMatch(reason)
})

test.each([
  ['{"a":1}', 'json', true],
  ['{a}', 'json', false],
  ['${REF}', 'number', true],
  ['4e2', 'number', true],
  ['four', 'number', false],
  ['https://example.com', 'url', true],
  ['example', 'url', false],
  ['perhaps', 'boolean', false],
] as const)('%j as %s', (text, type, fits) => {
  expect(checkValue(text, type) === undefined).toBe(fits)
})
