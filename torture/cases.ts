/** Every case, in the order in which they run. */
import type { Case } from './case.ts'
import { fuzz } from './fuzz.ts'
import { kill } from './kill.ts'

export const cases: readonly Case[] = [fuzz, kill]
