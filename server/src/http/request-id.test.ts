import { expect, test } from 'vitest'
import { startService } from '../../../test/harness.ts'

test('a request id does not reveal the number of earlier requests', async () => {
  const service = await startService()
  try {
    const ids: string[] = []
    for (let count = 0; count < 520; count++) {
      const { headers } = await fetch(`${service.url}/healthz`)
      ids.push(headers.get('x-request-id') ?? '')
    }
    expect(ids.filter((id) => !/^[\w-]{16}$/.test(id))).toEqual([])
    for (const part of [(id: string) => id.slice(0, 8), (id: string) => id.slice(8)]) {
      expect(new Set(ids.map(part)).size).toBe(ids.length)
    }
    expect(ids.toSorted()).not.toEqual(ids)
  } finally {
    await service.stop()
  }
})
