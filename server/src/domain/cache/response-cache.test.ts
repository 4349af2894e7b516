import { expect, test } from 'vitest'
import { createEnvironmentVersions } from './environment-version.ts'
import { createResponseCache } from './response-cache.ts'

test('a response is made once for callers that ask together, and again for later ones', async () => {
  const cache = createResponseCache(createEnvironmentVersions())
  const { promise, resolve } = Promise.withResolvers<string>()
  let made = 0
  const make = () => {
    made++
    return promise
  }
  const asked = [cache.makeAlone('a', make), cache.makeAlone('a', make), cache.makeAlone('a', make)]
  const another = cache.makeAlone('b', async () => 'other')
  expect(await another).toBe('other')
  resolve('made')
  expect(await Promise.all(asked)).toEqual(['made', undefined, undefined])
  expect(made).toBe(1)
  expect(await cache.makeAlone('a', make)).toBe('made')
  expect(made).toBe(2)
})

test('a failure reaches only the caller that made the response', async () => {
  const cache = createResponseCache(createEnvironmentVersions())
  const { promise, reject } = Promise.withResolvers<string>()
  const first = cache.makeAlone('a', () => promise)
  const second = cache.makeAlone('a', async () => 'not called')
  reject(new Error('no such secret'))
  await expect(first).rejects.toThrow('no such secret')
  expect(await second).toBeUndefined()
  expect(await cache.makeAlone('a', async () => 'made')).toBe('made')
})

test('a cleared cache holds no response, and takes new ones', () => {
  const cache = createResponseCache(createEnvironmentVersions())
  const snapshot = Object.assign(Object.create(null), { identity: Symbol('w') })
  const answer = { body: '[]', etag: '"1"', auditDetails: undefined, entity: { id: '', name: '' } }
  cache.keep('a', snapshot, [], answer)
  expect(cache.find('a', snapshot)).toMatchObject({ body: '[]' })
  cache.clear()
  expect(cache.find('a', snapshot)).toBeUndefined()
  cache.keep('a', snapshot, [], answer)
  expect(cache.find('a', snapshot)).toMatchObject({ body: '[]' })
})
