/** Command-line options. */
import { parseArgs } from 'node:util'

export const help = `npm run bench -- [options]

Measures the service and a bare node:http server that sends the same bytes, alternating within one run. Takes under
ten minutes and needs only Node and npm.

  --quick         one round of one second, at most 10,000 secrets: shows that it works, not how fast it is
  --only NAME     only rows whose section or name contains NAME, such as "sqlite", "postgresql", "two processes",
                  "growth", "sdk", "command line", "memory" or "read one"; repeatable
  --seconds N     length of each measurement (1)
  --rounds N      number of rounds; the median counts (3, plus two for rows with a goal)
  --secrets N     final size of the store in the growth section (1000000, if it fits into ten minutes; 0 skips it)
  --memory        also measure memory under the load of all rows and a million reads, and a minute later
  --markdown      print the tables as Markdown at the end
  --json FILE     write the figures
  --chart FILE    draw the ratios as SVG
  --help          print this text
`

/** Prints the help and exits on `--help`; on invalid options prints the error before it and exits with 2. */
export function readOrEnd<Read extends { readonly help: boolean }>(text: string, read: (args: string[]) => Read): Read {
  try {
    const options = read(process.argv.slice(2))
    if (!options.help) return options
    process.stdout.write(text)
    process.exit()
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : error}\n\n${text}`)
    process.exit(2)
  }
}

export type Options = {
  readonly seconds: number
  readonly rounds: number
  readonly secrets: number
  /** The size was given explicitly, so the time budget does not apply. */
  readonly isUnbounded: boolean
  readonly only: readonly string[]
  readonly memory: boolean
  readonly markdown: boolean
  readonly json: string | undefined
  readonly chart: string | undefined
  readonly help: boolean
}

export function readOptions(args: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true, default: [] },
      seconds: { type: 'string' },
      rounds: { type: 'string' },
      secrets: { type: 'string' },
      memory: { type: 'boolean', default: false },
      markdown: { type: 'boolean', default: false },
      json: { type: 'string' },
      chart: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  })
  const { quick, secrets, memory, markdown, json, chart } = values
  const only = values.only.map((name) => name.toLowerCase())
  return {
    seconds: readNumber('--seconds', values.seconds ?? '1', 1),
    rounds: readNumber('--rounds', values.rounds ?? (quick ? '1' : '3'), 1),
    secrets: readNumber('--secrets', secrets ?? (quick ? '10000' : '1000000'), 0),
    isUnbounded: secrets !== undefined,
    only,
    memory: memory || only.includes('memory'),
    markdown,
    json,
    chart,
    help: values.help,
  }
}

export function readNumber(name: string, text: string, min: number): number {
  const number = Number(text)
  if (!/^\d{1,9}$/.test(text) || number < min) throw new Error(`${name} must be a whole number of at least ${min}.`)
  return number
}
