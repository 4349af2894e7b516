import { expect, test } from 'vitest'
import { VendorFault, VendorRefusal } from '../../providers/fault.ts'
import { vaultKv } from '../../providers/vault-kv.ts'
import { webhook } from '../../providers/webhook.ts'
import { explainFault, secretTextsOf } from './fault.ts'
import { createScrubber } from './scrubber.ts'

const nothingHidden = createScrubber()

test.each([
  ['1 error occurred:\n\t* permission denied\n\n', 'permission denied'],
  ['2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n', 'permission denied; invalid token'],
  ['first\n* second', 'first; second'],
  ['one line\r\nand another', 'one line and another'],
])('a list of errors is quoted on one line: %j', (vendorMessage, said) => {
  const fault = new VendorRefusal('scope', 'unused', { status: 403, vendorMessage })
  expect(explainFault('Vault', fault, nothingHidden)).toBe(
    `Vault answered 403: ${said}. The credential lacks permissions: grant it those that the auth step lists, or enter another one.`,
  )
})

test('a multi-line secret in a list of errors is hidden before the list becomes one line', () => {
  const secret = 'first line of it\n\t* second line of it'
  const fault = new VendorRefusal('invalid', 'unused', { status: 400, vendorMessage: `bad: ${secret}\n\t* other` })
  expect(explainFault('Vault', fault, createScrubber([secret]))).toMatch(
    /^Vault answered 400: bad: \[hidden\]; other\. /,
  )
})

test('a remedy of the provider replaces the advice for the kind of fault', () => {
  const fault = new VendorFault('gone', 'The Secret is immutable.', { remedy: 'Delete it.' })
  expect(explainFault('Kubernetes', fault, nothingHidden)).toBe('Kubernetes: The Secret is immutable. Delete it.')
})

test('an explanation is the vendor’s message, scrubbed and then shortened, and the remedy', () => {
  const secret = 'x'.repeat(400)
  const fault = new VendorRefusal('invalid', 'unused', { status: 422, vendorMessage: `bad value ${secret}` })
  const text = explainFault('Vendor', fault, createScrubber([secret]))
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
  expect(explainFault('AWS', fault, nothingHidden)).toMatch(
    /^AWS: A secret with this name is scheduled for deletion and does not belong to this sync\. /,
  )
  const unknown = new VendorRefusal('invalid', 'unused', { vendorMessage: 'no such thing' })
  expect(explainFault('AWS', unknown, nothingHidden)).toMatch(/^AWS refused it: no such thing\. /)
})

test('a huge message is not quoted, and costs nothing', () => {
  const scrubber = createScrubber(Array.from({ length: 5_000 }, (_, index) => `secret number ${index}`))
  const vendorMessage = 'x'.repeat(2 * 1024 * 1024)
  const faults = Array.from({ length: 200 }, () => new VendorRefusal('invalid', 'no', { status: 400, vendorMessage }))
  expect(new Set(faults.map((fault) => explainFault('Heroku', fault, scrubber)))).toEqual(
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
  const { scrub } = createScrubber(secretTextsOf(webhook, { url, secret: 'whsec_canary4' }))
  const said = [
    url,
    '/services/T0CANARY01/B0CANARY02?key=canary-3333',
    'T0CANARY01',
    'key=canary-3333',
    'whsec_canary4',
  ]
  for (const text of said) expect(scrub(`POST ${text} is not known`)).not.toMatch(/canary/i)
  expect(scrub('hooks.example.com is not known')).toBe('hooks.example.com is not known')
})
