/**
 * Passwords: argon2id. The slot parameter makes callers limit concurrency, so that a flood of logins cannot take all
 * memory or cores.
 */
import { hash, verify } from '@node-rs/argon2'
import type { Slot } from '../slot/pool.ts'

/** 46 MiB, one pass: OWASP's first choice for argon2id, which is the library's default algorithm. */
const cost = { memoryCost: 47_104, timeCost: 1, parallelism: 1 } as const

/** Hash of an unknown password, with the usual cost. */
const decoy = `$argon2id$v=19$m=${cost.memoryCost},t=${cost.timeCost},p=${cost.parallelism}$yvs8XG8tAR4YMpEDHnLc1A$V2zh0F//+J0EPGyOs7fQwVLmMTiLucsI0Sx2FYOFi88`

export function hashPassword(_slot: Slot, password: string): Promise<string> {
  return hash(password, cost)
}

/** Takes equally long if the account does not exist and `stored` is undefined. */
export async function verifyPassword(_slot: Slot, stored: string | undefined, password: string): Promise<boolean> {
  const matches = await verify(stored ?? decoy, password)
  return matches && stored !== undefined
}
