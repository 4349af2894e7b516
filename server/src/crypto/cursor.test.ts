import { describe, expect, test } from 'vitest'
import { openCursor, sealCursor } from './cursor.ts'
import { newKey } from './envelope.ts'
import { createKeyring, createRootKey, masterWrapKey } from './keyring.ts'

const master = masterWrapKey(newKey())
const newRoot = (id: string) => createRootKey(id, master).root
const keyring = createKeyring(newRoot('one'), [])

describe('a sealed cursor', () => {
  test('opens to its position, and says nothing about it', () => {
    const [short, long] = [sealCursor(keyring, 'list', 'A 1'), sealCursor(keyring, 'list', `${'B'.repeat(255)} 1`)]
    expect(openCursor(keyring, 'list', short)).toBe('A 1')
    expect(openCursor(keyring, 'list', long)).toBe(`${'B'.repeat(255)} 1`)
    expect(short).toHaveLength(long.length)
    expect(sealCursor(keyring, 'list', 'A 1')).not.toBe(short)
  })

  test('still opens after the root key was rotated, until the old root is gone', () => {
    const cursor = sealCursor(keyring, 'list', 'A 1')
    const rotated = newRoot('two')
    expect(openCursor(createKeyring(rotated, [keyring.active]), 'list', cursor)).toBe('A 1')
    expect(openCursor(createKeyring(rotated, []), 'list', cursor)).toBeUndefined()
  })

  test.each(['', 'AA', Buffer.alloc(325).toString('base64url'), `${sealCursor(keyring, 'another list', 'A 1')}`])(
    'is not %j',
    (made) => {
      expect(openCursor(keyring, 'list', made)).toBeUndefined()
    },
  )
})
