/** Shows how far a long command is: a bar on a terminal, otherwise a line every ten seconds. */
import type { Print } from './with-operator.ts'

const lineEveryMs = 10_000
const barEveryMs = 100
const barWidth = 30

type Progress = { readonly stage: string; readonly done: number; readonly total: number }
type ProgressDisplay = {
  show(progress: Progress): void
  /** Removes the bar, so that other output can follow. */
  clear(): void
}

export async function showProgress<Result>(
  print: Print,
  work: (onProgress: (progress: Progress) => void) => Promise<Result>,
): Promise<Result> {
  const display = createProgress(print, process.stderr)
  try {
    return await work(display.show)
  } finally {
    display.clear()
  }
}

function createProgress(print: Print, terminal: Pick<NodeJS.WriteStream, 'isTTY' | 'write'>): ProgressDisplay {
  const everyMs = terminal.isTTY ? barEveryMs : lineEveryMs
  let shownAt = performance.now()
  let hasBar = false
  return {
    show({ stage, done, total }) {
      if (performance.now() - shownAt < everyMs) return
      shownAt = performance.now()
      const percent = total === 0 ? 0 : Math.min(100, Math.floor((100 * done) / total))
      if (!terminal.isTTY) {
        print(`  ${stage}: ${percent} %\n`)
        return
      }
      const filled = Math.round((barWidth * percent) / 100)
      const bar = '#'.repeat(filled).padEnd(barWidth, '.')
      terminal.write(`\r\x1b[2K  ${stage.padEnd(13)} [${bar}] ${percent} %`)
      hasBar = true
    },
    clear() {
      if (hasBar) terminal.write('\r\x1b[2K')
      hasBar = false
    },
  }
}
