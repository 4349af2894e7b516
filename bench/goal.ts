/** Goals, as ratios to the bare server on the same machine in the same run. Rows not listed have no goal. */
const ratios: Readonly<Record<string, number>> = {
  'read one': 0.5,
  'read one, JWT': 0.5,
  'list 50': 0.4,
  'list 50, resolved': 0.4,
  'not modified (304)': 0.5,
}

export const goalOf = (name: string): number | undefined => ratios[name]

/** Goal of `write one`: its share of `write one, least work`, which it can never exceed. */
export const minShareOfLeast = 0.65

/** Requests a second, by engine and row. */
export const rateGoals: Readonly<Record<string, number>> = { 'PostgreSQL: open a share': 1_000 }

/** Largest processor time of one request, in milliseconds: figures of `npm run bench:cost`. */
const costs: Readonly<Record<string, number>> = { 'import 1,000': 25, 'plan a sync of 1,000': 20 }

export const costGoalOf = (name: string): number | undefined => costs[name]

/** Megabytes of the service on SQLite at most: after all load, and a minute later. */
export const memoryGoals = { loadedMb: 200, restedMb: 130 } as const

/** Rows with a goal or a high variance get more rounds, so that one slow moment does not decide. */
export const manyRounds = (rounds: number): number => (rounds > 1 ? rounds + 2 : rounds)

/** Maximum p99/p50 at 64 connections. */
export const maxSpread = 5
