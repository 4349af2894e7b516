import type { SyncRunItem } from '@coffer/contract/sync'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { VendorFault } from '../../../providers/fault.ts'
import type { SyncRecord } from '../../../store/sync/sync.ts'
import { dayMs } from '../../time.ts'
import { nextOf } from './outcome.ts'

const at = Date.UTC(2026, 0, 1)
const down = new VendorFault('transient', 'The service answered 503.')
const explain = ({ message }: VendorFault) => message

function after(outcomes: readonly SyncRunItem['outcome'][], failing: Pick<SyncRecord, 'failCount' | 'failingSince'>) {
  const sync = { state: 'failing', scanAt: null, quietMs: 0, triggerNext: 'change', allowedDeletes: 0, ...failing }
  const items = outcomes.map((outcome, index) => ({ name: `K${index}`, outcome, message: null }))
  return nextOf(sync as SyncRecord, at, items, down, explain)
}

afterEach(() => vi.restoreAllMocks())

describe('a run that fails', () => {
  test('is never due again at the same moment, even with the shortest random delay', () => {
    vi.spyOn(Math, 'random').mockReturnValue(0.000_1)
    expect(after(['failed'], { failCount: 0, failingSince: null })).toMatchObject({ dueAt: at + 1, notBefore: at + 1 })
  })

  test.each(['created', 'updated', 'adopted', 'deleted'] as const)(
    'restarts the failure count if an entry was %s',
    (outcome) => {
      expect(after([outcome, 'failed'], { failCount: 9, failingSince: at - 2 * dayMs })).toMatchObject({
        state: 'failing',
        failCount: 1,
        failingSince: at,
      })
    },
  )

  test.each(['conflict', 'drifted'] as const)('adds one failure if an entry is only %s', (outcome) => {
    expect(after([outcome, 'failed'], { failCount: 9, failingSince: at - 1_000 })).toMatchObject({
      state: 'failing',
      failCount: 10,
      failingSince: at - 1_000,
    })
  })

  test.each(['conflict', 'drifted'] as const)(
    'is blocked until a person acts after a day, even if an entry is %s',
    (outcome) => {
      expect(after([outcome, 'failed'], { failCount: 99, failingSince: at - dayMs - 1 })).toMatchObject({
        state: 'blocked',
        reason: 'exhausted',
      })
    },
  )
})
