/** Loads master keys outside a service. */
import { randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { MasterKeyError } from '../server/src/master-key/error.ts'
import { loadMasterKey, type MasterKeyOptions, type MasterKeySource } from '../server/src/master-key/master-key.ts'
import { createOutbound } from '../server/src/outbound.ts'
import { parseAllowList } from '../server/src/outbound-allow.ts'

export const key = randomBytes(32)
export const spellings = [key.toString('base64'), key.toString('base64url'), key.toString('hex')]
const outbound = createOutbound({ allow: parseAllowList('') })

export function memoryWrapped(stored?: string) {
  return {
    stored: () => stored,
    list: async () => (stored === undefined ? [] : [stored]),
    saveIfAbsent: async (wrapped: string) => {
      stored ??= wrapped
      return stored
    },
  }
}

export function load(source: MasterKeySource, options: Partial<MasterKeyOptions> = {}): Promise<Uint8Array> {
  return loadMasterKey(source, { wrapped: memoryWrapped(), outbound, env: process.env, mayCreate: true, ...options })
}

/** The message of the refusal, which never shows the key. */
export async function refusalOf(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof MasterKeyError)) throw new Error(`expected a MasterKeyError, got ${String(error)}`)
  expect(error.cause).toBeUndefined()
  expect(error.message).toMatch(/^[^\n]+\.$/)
  for (const spelling of spellings) expect(`${error.message} ${error.stack}`).not.toContain(spelling.slice(0, 12))
  return error.message
}
