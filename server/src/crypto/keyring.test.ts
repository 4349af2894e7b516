import { expect, test } from 'vitest'
import { associatedData, newKey, open } from './envelope.ts'
import { newId } from './id.ts'
import { createKeyring, createRootKey, masterWrapKey, openRootKey, type RootKey } from './keyring.ts'

const masterBytes = newKey()
const master = masterWrapKey(masterBytes)
const { root, wrapped } = createRootKey(newId(), master)
const integrity = expect.objectContaining({ code: 'integrity' })

const keysOf = ({ wrap, token, rowMac, audit }: RootKey) =>
  [wrap, token, rowMac, audit].map((key) => key.export().toString('hex'))

test('the master key that wrapped a root key unwraps the same keys', () => {
  expect(keysOf(openRootKey(wrapped, master))).toEqual(keysOf(root))
  expect(keysOf(openRootKey(wrapped, masterWrapKey(Buffer.from(masterBytes))))).toEqual(keysOf(root))
})

test('every purpose has its own key, and none equals the root key or the master key', () => {
  const rootBytes = open(master, associatedData('root-key', wrapped.id), wrapped.wrapped)
  const all = [...keysOf(root), rootBytes.toString('hex'), masterBytes.toString('hex'), master.export().toString('hex')]
  expect(new Set(all).size).toBe(all.length)
})

test('two root keys have no key in common', () => {
  const other = createRootKey(wrapped.id, master)
  const all = [...keysOf(root), ...keysOf(other.root)]
  expect(new Set(all).size).toBe(all.length)
  expect(Buffer.compare(other.wrapped.checkValue, wrapped.checkValue)).not.toBe(0)
})

test('another master key cannot open a root key', () => {
  expect(() => openRootKey(wrapped, masterWrapKey(newKey()))).toThrow(integrity)
  const almost = Buffer.from(masterBytes)
  almost.writeUInt8(almost.readUInt8(31) ^ 1, 31)
  expect(() => openRootKey(wrapped, masterWrapKey(almost))).toThrow(integrity)
})

test('a root key opens only under its own id', () => {
  expect(() => openRootKey({ ...wrapped, id: newId() }, master)).toThrow(integrity)
  expect(() => openRootKey({ ...wrapped, id: '' }, master)).toThrow(integrity)
})

test('the wrapped record or the check value of another root key is rejected', () => {
  const other = createRootKey(wrapped.id, master).wrapped
  expect(() => openRootKey({ ...wrapped, checkValue: other.checkValue }, master)).toThrow(integrity)
  expect(() => openRootKey({ ...wrapped, wrapped: other.wrapped }, master)).toThrow(integrity)
})

test.each(['wrapped', 'checkValue'] as const)('a change to any byte of %s is rejected', (column) => {
  for (let at = 0; at < wrapped[column].length; at++) {
    for (const mask of [1, 0x80, 0xff]) {
      const bytes = Buffer.from(wrapped[column])
      bytes.writeUInt8(bytes.readUInt8(at) ^ mask, at)
      expect(() => openRootKey({ ...wrapped, [column]: bytes }, master), `${at}`).toThrow(integrity)
    }
  }
})

test.each(['wrapped', 'checkValue'] as const)('%s is rejected when it is shorter or longer', (column) => {
  const bytes = Buffer.from(wrapped[column])
  for (const other of [bytes.subarray(0, 0), bytes.subarray(0, -1), bytes.subarray(1), Buffer.concat([bytes, bytes])]) {
    expect(() => openRootKey({ ...wrapped, [column]: other }, master)).toThrow(integrity)
  }
})

test('the keyring lists the active root first, finds every root by id, and nothing else', () => {
  const older = createRootKey(newId(), master).root
  const ring = createKeyring(root, [older])
  expect(ring.active).toBe(root)
  expect(ring.all).toEqual([root, older])
  expect([ring.find(root.id), ring.find(older.id)]).toEqual([root, older])
  for (const id of ['', newId(), '__proto__', 'constructor', root.id.toUpperCase()])
    expect(ring.find(id)).toBeUndefined()
})
