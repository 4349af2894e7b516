/** What is aimed at, as shares of the bare server on the same machine in the same run. A row without one has none. */
const ratios: Readonly<Record<string, number>> = {
  'token, warm': 0.5,
  'token, cold': 0.25,
  JWT: 0.5,
  'read one': 0.35,
  'read one, JWT': 0.35,
  'list 50': 0.4,
  'list 50, resolved': 0.4,
  'list 1,000': 0.4,
  'not modified (304)': 0.4,
}

export const goalOf = (name: string): number | undefined => ratios[name]

/** With 64 connections, the slowest hundredth takes less than so many times the middle. */
export const maxSpread = 5
