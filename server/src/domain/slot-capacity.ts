/** Concurrency limits for expensive work. */
import { createKeyedSlots, createSlotPool } from '../slot/pool.ts'

export type Slots = ReturnType<typeof createSlots>

export function createSlots() {
  return {
    /** Bounds the memory that large answers take. One workspace holds one of the two, and so does one person. */
    largeRead: createSlotPool({ running: 2, waiting: 32, runningPerParty: 1 }),
    /** Other writers and audited reads queue behind a large transaction: with one slot, they wait for at most one. */
    largeWrite: createSlotPool({ running: 1, waiting: 16 }),
    /** Reads of audit trails: held for one portion of work, and never while a reader is waited for. */
    auditRead: createSlotPool({ running: 2, waiting: 16, runningPerParty: 1 }),
    /** Two argon2 hashes take 92 MiB and two threads. */
    password: createSlotPool({ running: 2, waiting: 64 }),
    /** Keeps most store connections free for other requests while someone guesses the tokens of shares and invites. */
    tokenLookUp: createSlotPool({ running: 4, waiting: 512 }),
    /** Leaves half of the password hashing capacity to logins. */
    sharePassword: createSlotPool({ running: 1, waiting: 128 }),
    /** Logins to one email address run one at a time, because an attempt is counted before its outcome is known. */
    login: createKeyedSlots({ running: 1, waiting: 64 }),
  } as const
}
