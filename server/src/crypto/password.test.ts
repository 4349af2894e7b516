import { hash } from '@node-rs/argon2'
import { expect, test } from 'vitest'
import { hashPassword, verifyPassword } from './password.ts'

const password = 'correct horse battery staple'
const stored = await hashPassword(password)

test('a password is kept as argon2id with 46 MiB and a salt of its own', async () => {
  expect(stored).toMatch(/^\$argon2id\$v=19\$m=47104,t=1,p=1\$/)
  expect(await hashPassword(password)).not.toBe(stored)
  expect(stored).not.toContain(password)
})

test('the right password is accepted, and no other', async () => {
  expect(await verifyPassword(stored, password)).toBe(true)
  for (const wrong of ['', ' ', password.slice(1), `${password} `, password.toUpperCase(), `${password}\0`, stored]) {
    expect(await verifyPassword(stored, wrong), wrong).toBe(false)
  }
})

test('characters outside ASCII count, to the last of 256', async () => {
  const long = `${'pässwörd-🔑-'.repeat(30)}`.slice(0, 255)
  const kept = await hashPassword(`${long}a`)
  expect(await verifyPassword(kept, `${long}a`)).toBe(true)
  expect(await verifyPassword(kept, `${long}b`)).toBe(false)
})

test('nobody has the password of an account that does not exist', async () => {
  for (const guess of [password, '', 'a password that nobody has']) {
    expect(await verifyPassword(undefined, guess)).toBe(false)
  }
})

test('a hash made with other costs still verifies, so that the costs can change', async () => {
  const cheaper = await hash(password, { memoryCost: 19_456, timeCost: 2, parallelism: 1 })
  expect(await verifyPassword(cheaper, password)).toBe(true)
  expect(await verifyPassword(cheaper, 'wrong')).toBe(false)
})

test('two run and 64 wait; the next is refused as overloaded at once, and later ones are served again', async () => {
  const queued = Array.from({ length: 66 }, () => verifyPassword(stored, 'wrong'))
  const refused = Array.from({ length: 5 }, () => verifyPassword(stored, password))
  const first = await Promise.race([...refused.map((one) => one.catch((error: unknown) => error)), ...queued])
  expect(first).toMatchObject({ code: 'overloaded', status: 503, retryAfterSeconds: 1 })
  for (const answer of await Promise.allSettled(refused)) {
    expect(answer).toMatchObject({ status: 'rejected', reason: { code: 'overloaded' } })
  }
  expect(new Set(await Promise.all(queued))).toEqual(new Set([false]))
  expect(await verifyPassword(stored, password)).toBe(true)
})

test('a check that fails frees its place', async () => {
  const broken = await Promise.allSettled(Array.from({ length: 10 }, () => verifyPassword('not a hash', password)))
  expect(broken.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 'rejected'))
  expect(await verifyPassword(stored, password)).toBe(true)
})
