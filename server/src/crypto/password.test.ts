import { hash } from '@node-rs/argon2'
import { expect, test } from 'vitest'
import { hashPassword, verifyPassword } from './password.ts'

const slot = { release: () => undefined }
const password = 'correct horse battery staple'
const stored = await hashPassword(slot, password)

test('a password is hashed with argon2id, 46 MiB and its own salt', async () => {
  expect(stored).toMatch(/^\$argon2id\$v=19\$m=47104,t=1,p=1\$/)
  expect(await hashPassword(slot, password)).not.toBe(stored)
  expect(stored).not.toContain(password)
})

test('the right password is accepted, and no other', async () => {
  expect(await verifyPassword(slot, stored, password)).toBe(true)
  for (const wrong of ['', ' ', password.slice(1), `${password} `, password.toUpperCase(), `${password}\0`, stored]) {
    expect(await verifyPassword(slot, stored, wrong), wrong).toBe(false)
  }
})

test('every character counts, beyond ASCII and up to the 256th', async () => {
  const long = `${'pässwörd-🔑-'.repeat(30)}`.slice(0, 255)
  const kept = await hashPassword(slot, `${long}a`)
  expect(await verifyPassword(slot, kept, `${long}a`)).toBe(true)
  expect(await verifyPassword(slot, kept, `${long}b`)).toBe(false)
})

test('no password is accepted for an account that does not exist', async () => {
  for (const guess of [password, '', 'a password that nobody has']) {
    expect(await verifyPassword(slot, undefined, guess)).toBe(false)
  }
})

test('a hash with other cost parameters still verifies, so that they can change', async () => {
  const cheaper = await hash(password, { memoryCost: 19_456, timeCost: 2, parallelism: 1 })
  expect(await verifyPassword(slot, cheaper, password)).toBe(true)
  expect(await verifyPassword(slot, cheaper, 'wrong')).toBe(false)
})
