/** The overview as a file: every actor, every right, and nothing that a spreadsheet would run. */
import type { AccessRow } from '@coffer/sdk'
import { expect, test } from 'vitest'
import { filterRows, toCsv } from './access-table.ts'

const environments = [
  { id: 'e1', name: 'staging' },
  { id: 'e2', name: 'production' },
]
const row = (name: string, type: AccessRow['actor']['type'], rest: Partial<AccessRow> = {}): AccessRow => ({
  ...{ actor: { type, id: name, name }, ownerName: null, isOwner: false, problem: null, environments: [] },
  mayAdminister: false,
  ...rest,
})
const rows = [
  row('ann@example.com', 'user', {
    environments: [
      { projectId: 'p', environmentId: 'e2', right: 'read' },
      { projectId: 'p', environmentId: 'e1', right: 'admin' },
    ],
  }),
  row('ci', 'token', { ownerName: 'ann@example.com', problem: 'It needs "a factor", now.' }),
  row('=cmd()', 'service'),
]

test('a file has a line for each actor, in the order of the columns', () => {
  expect(toCsv(rows, environments)).toBe(
    [
      'Name,Kind,Owner,staging,production,Problem',
      'ann@example.com,person,,admin,read,',
      'ci,token,ann@example.com,none,none,"It needs ""a factor"", now."',
      "'=cmd(),service account,,none,none,",
      '',
    ].join('\r\n'),
  )
})

test.each(['=1', '+1', '-1', '@x', '\tx'])('a name that starts like a formula is a text: %s', (name) => {
  expect(toCsv([row(name, 'token')], []).split('\r\n')[1]).toBe(`'${name},token,,`)
})

test.each([
  ['', undefined, 3],
  ['ANN', undefined, 2],
  ['ann', 'token', 1],
  ['', 'service', 1],
  ['nobody', undefined, 0],
] as const)('the filter %o of %s leaves %i', (text, type, count) => {
  expect(filterRows(rows, { text, type })).toHaveLength(count)
})
