/** Prints data to stdout and words to stderr. */

import { writeSync } from 'node:fs'
import { formatTable, type Table, visible, visibleJson } from './table.ts'
import type { Terminal } from './terminal.ts'

export type Output = {
  /** Data: a table for people, tab-separated lines for programs, or with `--json` the object of the API. */
  show(json: unknown, table: () => Table): void
  /** A line of data. */
  line(text: string): void
  /** Data exactly as it is. */
  raw(text: string): Promise<void>
  /** A remark for people, left out with `--quiet`. */
  note(text: string): void
  /** A remark that `--quiet` does not silence. */
  warn(text: string): void
  /** Only with `--verbose`. */
  detail(text: string): void
  /** Shows that long work continues, on a terminal only. Call `end` in any case. */
  progress(label: string): Progress
}

export type Progress = { update(text: string): void; end(): void }

type Options = { readonly json: boolean; readonly quiet: boolean; readonly verbose: boolean }

export function createOutput(terminal: Terminal, { json, quiet, verbose }: Options): Output {
  const say = (text: string) => writeWords(terminal, `${text.split('\n').map(visible).join('\n')}\n`)
  return {
    show(value, table) {
      const { stdout, hasColor } = terminal
      if (json && stdout.isTTY) stdout.write(`${visibleJson(JSON.stringify(value, undefined, 2))}\n`)
      else if (json) stdout.write(`${JSON.stringify(value)}\n`)
      else stdout.write(formatTable(table(), { isTerminal: stdout.isTTY === true, hasColor, width: stdout.columns }))
    },
    line: (text) => void terminal.stdout.write(`${text}\n`),
    raw: (text) =>
      new Promise((resolve, reject) => {
        terminal.stdout.write(text, (error) => (error ? reject(error) : resolve()))
      }),
    note: (text) => {
      if (!quiet) say(text)
    },
    warn: say,
    detail: (text) => {
      if (verbose && !quiet) say(text)
    },
    progress: (label) => startProgress(terminal.stderr, label, quiet || terminal.stderr.isTTY !== true),
  }
}

/** Opening process.stderr makes writes of everybody who shares the pipe fail when it is full: of the command of `run` too. */
function writeWords(terminal: Terminal, text: string): void {
  if (process.getBuiltinModule('node:tty').isatty(2)) return void terminal.stderr.write(text)
  try {
    writeSync(2, text)
  } catch (error) {
    // Somebody else has done it. Other errors: nobody reads.
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') terminal.stderr.write(text)
  }
}

const clearLine = '\r\u001b[2K'
/** Work that ends sooner shows nothing. */
const delayMs = 300

function startProgress(stderr: NodeJS.WriteStream, label: string, isSilent: boolean): Progress {
  if (isSilent) return { update: () => undefined, end: () => undefined }
  let text = label
  let isShown = false
  const draw = () => {
    isShown = true
    stderr.write(`${clearLine}${text}`)
  }
  const timer = setInterval(draw, delayMs)
  timer.unref()
  return {
    update(next) {
      text = `${label} ${next}`
    },
    end() {
      clearInterval(timer)
      if (isShown) stderr.write(clearLine)
    },
  }
}
