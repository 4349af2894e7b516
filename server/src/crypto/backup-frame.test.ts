import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { backupFileKey, openFrame, sealFrame } from './backup-frame.ts'
import { createRootKey, masterWrapKey } from './keyring.ts'

const newRoot = (id: string) => createRootKey(id, masterWrapKey(randomBytes(32))).root
const root = newRoot('one')
const header = Buffer.from('header')
const key = backupFileKey(root, header)
const content = Buffer.from('content')

test('a frame opens as the one of its kind at its position', () => {
  const sealed = sealFrame(key, 'rows', 3, content)
  expect(openFrame(backupFileKey(root, header), 'rows', 3, sealed)).toEqual(content)
  expect(sealed.includes(content)).toBe(false)
})

test.each([
  ['at another position', key, 'rows', 4],
  ['as another kind', key, 'table', 3],
  ['after another header', backupFileKey(root, Buffer.from('headeR')), 'rows', 3],
  ['under another root', backupFileKey(newRoot('one'), header), 'rows', 3],
  ['under the same root with another id', backupFileKey({ ...root, id: 'two' }, header), 'rows', 3],
])('a frame does not open %s', (_what, otherKey, kind, index) => {
  const sealed = sealFrame(key, 'rows', 3, content)
  expect(() => openFrame(otherKey, kind, index, sealed)).toThrow('integrity check')
})
