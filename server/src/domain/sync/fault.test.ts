import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyCharacter } from '../../../../test/any-character.ts'
import { times } from '../../../../test/tier.ts'
import { VendorFault, VendorRefusal } from '../../providers/fault.ts'
import { vaultKv } from '../../providers/vault-kv.ts'
import { webhook } from '../../providers/webhook.ts'
import { explainFault, scrub, secretTextsOf } from './fault.ts'

const spellings: [string, (secret: string) => string][] = [
  ['unencoded', (secret) => secret],
  ['in JSON', (secret) => JSON.stringify(secret)],
  ['in a URL', (secret) => encodeURIComponent(secret)],
  ['in base64', (secret) => Buffer.from(secret).toString('base64')],
  ['in base64url', (secret) => Buffer.from(secret).toString('base64url')],
  ['in hex', (secret) => Buffer.from(secret).toString('hex')],
]

test.each(spellings)('a value quoted %s by a vendor is hidden', (_title, spell) => {
  const secret = 'p4$$w0rd "with" ünusual\nlines & more'
  const text = scrub(`The value ${spell(secret)} is not allowed.`, ['other', secret])
  expect(text).not.toContain(spell(secret))
  expect(text).toContain('The value ')
  expect(text).toContain(' is not allowed.')
})

test('a truncated value in a vendor message is hidden', () => {
  const secret = 'abcdefghijklmnopqrstuvwxyz0123456789'
  expect(scrub(`starts with ${secret.slice(0, 20)}… ${secret.slice(0, 15)}`, [secret])).toBe(
    'starts with [hidden]… [hidden]',
  )
})

test.each(spellings)('a value quoted %s and truncated by a vendor is hidden', (_title, spell) => {
  const secret = 'p4$$w0rd "with" ünusual\nlines & more'
  const quoted = spell(secret).replace(/^"/, '')
  expect(scrub(`starts with ${quoted.slice(0, 20)}…`, [secret])).toBe('starts with [hidden]…')
})

test.each([
  ['eu-cent', 'no such region eu-central-1 in eu-cent'],
  ['1', 'port 1 or 80 of host 1'],
  ['on', 'value "on" is wrong: once upon'],
  ['seven77', 'seven77'],
])('a value of less than eight characters garbles no sentence: %s', (value, text) => {
  expect(scrub(text, [value, value.padEnd(12, '\n')])).toBe(text)
})

test('no text keeps a secret of eight or more characters', () => {
  fc.assert(
    fc.property(
      fc.string({ minLength: 8, unit: anyCharacter }).filter((secret) => secret.trim().length >= 8),
      fc.string(),
      fc.string(),
      (secret, before, after) => {
        const result = scrub(`${before}${secret}${after}`, [secret])
        expect(result.replaceAll('[hidden]', '')).not.toContain(secret)
      },
    ),
    { numRuns: times(200, 2_000) },
  )
})

test.each([
  ['1 error occurred:\n\t* permission denied\n\n', 'permission denied'],
  ['2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n', 'permission denied; invalid token'],
  ['first\n* second', 'first; second'],
  ['one line\r\nand another', 'one line and another'],
])('a list of errors is quoted on one line: %j', (vendorMessage, said) => {
  const fault = new VendorRefusal('scope', 'unused', { status: 403, vendorMessage })
  expect(explainFault('Vault', fault, [])).toBe(
    `Vault answered 403: ${said}. The credential lacks permissions: grant it those that the auth step lists, or enter another one.`,
  )
})

test('a multi-line secret in a list of errors is hidden before the list becomes one line', () => {
  const secret = 'first line of it\n\t* second line of it'
  const fault = new VendorRefusal('invalid', 'unused', { status: 400, vendorMessage: `bad: ${secret}\n\t* other` })
  expect(explainFault('Vault', fault, [secret])).toMatch(/^Vault answered 400: bad: \[hidden\]; other\. /)
})

test('a remedy of the provider replaces the advice for the kind of fault', () => {
  const fault = new VendorFault('gone', 'The Secret is immutable.', { remedy: 'Delete it.' })
  expect(explainFault('Kubernetes', fault, [])).toBe('Kubernetes: The Secret is immutable. Delete it.')
})

test('an explanation is the vendor’s message, scrubbed and then shortened, and the remedy', () => {
  const secret = 'x'.repeat(400)
  const fault = new VendorRefusal('invalid', 'unused', { status: 422, vendorMessage: `bad value ${secret}` })
  const text = explainFault('Vendor', fault, [secret])
  expect(text).not.toContain('xxxx')
  expect(text).toBe(
    'Vendor answered 422: bad value [hidden]. The vendor rejects this name or value: change it, or exclude it in the mapping.',
  )
})

test('a known cause is explained by the provider instead of the vendor’s message', () => {
  const facts = { status: 400, vendorMessage: 'You can’t perform this operation.' }
  const fault = new VendorFault(
    'conflict',
    'A secret with this name is scheduled for deletion and does not belong to this sync.',
    facts,
  )
  expect(explainFault('AWS', fault, [])).toMatch(
    /^AWS: A secret with this name is scheduled for deletion and does not belong to this sync\. /,
  )
  const unknown = new VendorRefusal('invalid', 'unused', { vendorMessage: 'no such thing' })
  expect(explainFault('AWS', unknown, [])).toMatch(/^AWS refused it: no such thing\. /)
})

test('a huge message is not quoted, and costs nothing', () => {
  const secrets = Array.from({ length: 5_000 }, (_, index) => `secret number ${index}`)
  const vendorMessage = 'x'.repeat(2 * 1024 * 1024)
  const faults = Array.from({ length: 200 }, () => new VendorRefusal('invalid', 'no', { status: 400, vendorMessage }))
  expect(new Set(faults.map((fault) => explainFault('Heroku', fault, secrets)))).toEqual(
    new Set(['Heroku answered 400. The vendor rejects this name or value: change it, or exclude it in the mapping.']),
  )
})

test('passwords and unknown fields of a credential are hidden; other fields stay readable', () => {
  const credential = {
    address: 'https://vault.example.com',
    method: 'token',
    token: 'hvs.canary',
    former: 'old-canary',
  }
  expect(secretTextsOf(vaultKv, credential)).toEqual(['hvs.canary', 'old-canary'])
})

test('an address that may contain a token is hidden, as a whole and in its parts', () => {
  const url = 'https://hooks.example.com/services/T0CANARY01/B0CANARY02?key=canary-3333'
  const secrets = secretTextsOf(webhook, { url, secret: 'whsec_canary4' })
  const said = [
    url,
    '/services/T0CANARY01/B0CANARY02?key=canary-3333',
    'T0CANARY01',
    'key=canary-3333',
    'whsec_canary4',
  ]
  for (const text of said) expect(scrub(`POST ${text} is not known`, secrets)).not.toMatch(/canary/i)
  expect(scrub('hooks.example.com is not known', secrets)).toBe('hooks.example.com is not known')
})
