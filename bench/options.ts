/** What can be said on the command line. */
import { parseArgs } from 'node:util'

export const help = `npm run bench -- [options]

Measures the service beside a bare node:http server that sends the same bytes, in turns within one run; under ten
minutes. Needs nothing but Node and npm.

  --quick         one round of one second each, at most 10,000 secrets: whether it works, not how fast it is
  --only NAME     only rows whose part or name has this in it, such as "sqlite", "postgresql", "two processes",
                  "growth" or "read one"; may be repeated
  --seconds N     of each measurement (1)
  --rounds N      of which the median counts (3, and two more where there is a goal)
  --secrets N     how far the store grows in the last part (1000000, if it fits into ten minutes; 0 leaves it out)
  --memory        also: a million reads over a thousand environments
  --markdown      prints the tables as Markdown at the end
  --json FILE     writes the figures
  --chart FILE    draws the ratios as SVG
  --help          this text
`

/** Prints the text where it is asked for, and where what was said makes no sense: then the reason stands before it. */
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
  /** Somebody has asked for so many, however long it takes. */
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
  return {
    seconds: readNumber('--seconds', values.seconds ?? '1', 1),
    rounds: readNumber('--rounds', values.rounds ?? (quick ? '1' : '3'), 1),
    secrets: readNumber('--secrets', secrets ?? (quick ? '10000' : '1000000'), 0),
    isUnbounded: secrets !== undefined,
    only: values.only.map((name) => name.toLowerCase()),
    memory,
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
