/** What is aimed at, as shares of the bare server on the same machine in the same run. A row without one has none. */
const ratios: Readonly<Record<string, number>> = {
  'read one': 0.5,
  'read one, JWT': 0.5,
  'list 50': 0.4,
  'list 50, resolved': 0.4,
  'not modified (304)': 0.5,
  'write one': 0.3,
}

export const goalOf = (name: string): number | undefined => ratios[name]

/** Where there is a goal, or much swing, one bad moment of the machine must not decide. */
export const manyRounds = (rounds: number): number => (rounds > 1 ? rounds + 2 : rounds)

/** With 64 connections, the slowest hundredth takes less than so many times the middle. */
export const maxSpread = 5
