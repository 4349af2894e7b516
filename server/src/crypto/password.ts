/** Passwords: argon2id, a few at a time, so that a flood of logins cannot take all memory or all cores. */
import { hash, verify } from '@node-rs/argon2'
import { createTurns } from '../turns.ts'

/** 46 MiB, one pass: OWASP's first choice for argon2id. The library's default algorithm is argon2id. */
const cost = { memoryCost: 47_104, timeCost: 1, parallelism: 1 } as const
const inTurn = createTurns(2, 64)

export function hashPassword(password: string): Promise<string> {
  return inTurn(() => hash(password, cost))
}

/** Takes as long for an account that does not exist: `stored` is then undefined. */
export function verifyPassword(stored: string | undefined, password: string): Promise<boolean> {
  return inTurn(async () => {
    decoy ??= await hash('a password that nobody has', cost)
    const matches = await verify(stored ?? decoy, password)
    return matches && stored !== undefined
  })
}

let decoy: string | undefined
