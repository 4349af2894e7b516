import { expect, test } from 'vitest'
import type { ReminderRow } from '../../../store/secret/reminder.ts'
import type { OpenValue } from '../load.ts'
import { createReminderIndex } from './shown.ts'

test('each value finds its own reminder, and each reminder is read at most twice for any number of values', () => {
  let reads = 0
  const reminders = Array.from({ length: 500 }, (_, index): ReminderRow => {
    const row = { id: `${index}`, workspaceId: 'w', type: 'one_time', nextAt: 0, everyDays: null } as const
    const secretId = `secret ${index}`
    return {
      ...row,
      environmentId: index % 2 === 0 ? 'even' : 'odd',
      get secretId() {
        reads++
        return secretId
      },
    }
  })
  const createValue = (environmentId: string, index: number, isPersonal = false): OpenValue => ({
    ...{ secretId: `secret ${index}`, environmentId, isPersonal },
    ...{ version: 1, updatedAt: 0, value: '', authors: '' },
  })
  const find = createReminderIndex(reminders)
  for (let index = 0; index < 1_000; index++) {
    expect(find(createValue('even', index))?.id).toBe(index < 500 && index % 2 === 0 ? `${index}` : undefined)
    expect(find(createValue('odd', index))?.id).toBe(index < 500 && index % 2 === 1 ? `${index}` : undefined)
    expect(find(createValue('even', index, true))).toBeUndefined()
  }
  expect(reads).toBeLessThanOrEqual(2 * reminders.length)
})
