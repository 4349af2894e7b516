/** The figures of one run, as text for a terminal and as Markdown. */
import { manyRounds, memoryGoals } from './goal.ts'

export type Row = {
  readonly name: string
  readonly connections: number
  readonly perSecond: number
  readonly referencePerSecond: number
  /** The median of the rounds' ratios. */
  readonly ratio: number
  /** Ratio to raw single-row commits, one after another. */
  readonly commitRatio?: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** p99 ÷ p50 of the reference: the spread that the machine itself causes. */
  readonly referenceSpread: number
  readonly errors: number
}
export type Section = {
  readonly title: string
  /** The server that the ratios refer to. */
  readonly reference: string
  readonly rows: Row[]
}
export type Start = {
  readonly engine: string
  readonly firstMs: number
  readonly laterMs: number
  readonly idleMb: number
  readonly loadedMb: number
  readonly commitsPerSecond: number
}
export type CommandRow = {
  readonly name: string
  /** Processor time of one command, or elapsed time of all. */
  readonly kind: 'processor' | 'elapsed'
  readonly ms: number
  /** The same of `node -e 0`. */
  readonly referenceMs: number
  readonly ratio: number
  /** Largest ratio. */
  readonly goal?: number
}
export type Memory = {
  readonly startMb: number
  /** The largest figure at the end of a row, or of a round of the million reads. */
  readonly largest: { readonly mb: number; readonly after: string }
  /** After all of it. */
  readonly loadedMb: number
  /** After a minute without a request. */
  readonly restedMb: number
}
export type Report = {
  readonly at: string
  readonly node: string
  readonly processor: string
  readonly cores: number
  readonly generator: string
  readonly seconds: number
  readonly rounds: number
  tookSeconds: number
  memory?: Memory
  readonly sections: Section[]
  readonly starts: Start[]
  readonly commands: CommandRow[]
  readonly skipped: string[]
}

const count = (number: number) => Math.round(number).toLocaleString('en')
export const rateText = (number: number) => (number < 10 ? number.toFixed(1) : count(number))
export const ratioText = (ratio: number) => ratio.toFixed(ratio < 0.01 ? 4 : 2)
const ms = (number: number) => number.toFixed(number < 10 ? 2 : 1)

const columns = (reference: string): [name: string, width: number][] => [
  ['conns', 7],
  ['req/s', 12],
  [reference, 16],
  ['ratio', 8],
  ['commits', 9],
  ['p50 ms', 9],
  ['p99 ms', 9],
  ['p99/p50', 9],
  ['reference’s', 13],
  ['errors', 8],
]
const startColumns: [name: string, width: number][] = [
  ['first start ms', 16],
  ['later start ms', 16],
  ['idle MB', 10],
  ['after load MB', 15],
  ['raw commits/s', 15],
]

const memoryColumns: [name: string, width: number][] = [
  ['at the start', 14],
  ['largest', 10],
  ['at the end of', 28],
  ['after all load', 16],
  ['goal', 8],
  ['a minute later', 16],
  ['goal', 8],
]

const commandColumns: [name: string, width: number][] = [
  ['time', 11],
  ['ms', 9],
  ['node -e 0', 11],
  ['ratio', 8],
  ['goal', 8],
]

function cellsOf(row: Row): string[] {
  return [
    String(row.connections),
    rateText(row.perSecond),
    rateText(row.referencePerSecond),
    ratioText(row.ratio),
    row.commitRatio === undefined ? '' : row.commitRatio.toFixed(2),
    ms(row.p50Ms),
    ms(row.p99Ms),
    row.p50Ms > 0 ? (row.p99Ms / row.p50Ms).toFixed(1) : '',
    row.referenceSpread.toFixed(1),
    count(row.errors),
  ]
}

const startCells = (start: Start) =>
  [start.firstMs, start.laterMs, start.idleMb, start.loadedMb, start.commitsPerSecond].map(count)

const commandCells = ({ kind, ms: time, referenceMs, ratio, goal }: CommandRow) => [
  kind,
  ms(time),
  ms(referenceMs),
  ratioText(ratio),
  goal === undefined ? '' : `≤ ${goal}`,
]

const memoryCells = ({ startMb, largest, loadedMb, restedMb }: Memory) => [
  count(startMb),
  count(largest.mb),
  largest.after,
  count(loadedMb),
  `≤ ${memoryGoals.loadedMb}`,
  count(restedMb),
  `≤ ${memoryGoals.restedMb}`,
]

function line(name: string, columns: readonly [string, number][], cells: readonly string[]): string {
  return name.padEnd(37) + columns.map(([, width], index) => (cells[index] ?? '').padStart(width)).join('')
}
const headings = (columns: readonly [string, number][]) => columns.map(([name]) => name)

export function headingLine({ title, reference }: Section): string {
  return `\n${line(title, columns(reference), headings(columns(reference)))}`
}
export const rowLine = (row: Row) => line(row.name, columns(''), cellsOf(row))

export function startLines(starts: readonly Start[]): string[] {
  if (starts.length === 0) return []
  const lines = starts.map((start) => line(start.engine, startColumns, startCells(start)))
  return [`\n${line('Start and memory', startColumns, headings(startColumns))}`, ...lines]
}

export const commandHeading = () => `\n${line('Command line', commandColumns, headings(commandColumns))}`
export const commandLine = (row: CommandRow) => line(row.name, commandColumns, commandCells(row))

export const conditionsOf = ({ at, node, processor, cores, generator, seconds, rounds }: Report) =>
  `${at.slice(0, 10)}, Node ${node}, ${cores} × ${processor}, load by ${generator}, ${rounds === 1 ? 'one round' : `median of ${rounds} rounds (${manyRounds(rounds)} where there is a goal)`} of ${seconds} s.`

const memoryTitle = 'Memory in MB'
const memoryEngine = 'SQLite'
export const memoryLines = (memory: Memory) => [
  `\n${line(memoryTitle, memoryColumns, headings(memoryColumns))}`,
  line(memoryEngine, memoryColumns, memoryCells(memory)),
]

export function toMarkdown(report: Report): string {
  const table = (first: string, names: readonly string[], lines: readonly (readonly string[])[]) => [
    '',
    `| ${[first, ...names].join(' | ')} |`,
    `|---|${names.map(() => '--:|').join('')}`,
    ...lines.map((cells) => `| ${cells.join(' | ')} |`),
  ]
  const sections = report.sections
    .filter(({ rows }) => rows.length > 0)
    .flatMap(({ title, reference, rows }) =>
      table(
        title,
        headings(columns(reference)),
        rows.map((row) => [row.name, ...cellsOf(row)]),
      ),
    )
  const starts = report.starts.map((start) => [start.engine, ...startCells(start)])
  return [
    conditionsOf(report),
    ...sections,
    ...(starts.length === 0 ? [] : table('Start and memory', headings(startColumns), starts)),
    ...(report.commands.length === 0
      ? []
      : table(
          'Command line',
          headings(commandColumns),
          report.commands.map((row) => [row.name, ...commandCells(row)]),
        )),
    ...(report.memory
      ? table(memoryTitle, headings(memoryColumns), [[memoryEngine, ...memoryCells(report.memory)]])
      : []),
    ...report.skipped.flatMap((reason) => ['', reason]),
  ].join('\n')
}
