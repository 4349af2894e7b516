/** The setting that somebody may have meant. */
import { settings } from './setting.ts'

/** Differs in at most two letters, or goes on after the given name, as COFFER_DATA_DIR after COFFER_DATA. */
export function closestSetting(given: string): string | undefined {
  const [best] = settings
    .map(({ name }) => ({ name, steps: name.startsWith(`${given}_`) ? 1 : distance(given, name) }))
    .sort((a, b) => a.steps - b.steps)
  return best && best.steps <= 2 ? best.name : undefined
}

/** Letters to add, remove or replace. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [i, letter] of [...from].entries()) {
    const next = [i + 1]
    for (const [j, other] of [...to].entries()) {
      next.push(Math.min((next[j] ?? 0) + 1, (row[j + 1] ?? 0) + 1, (row[j] ?? 0) + (letter === other ? 0 : 1)))
    }
    row = next
  }
  return row.at(-1) ?? 0
}
