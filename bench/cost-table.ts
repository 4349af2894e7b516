/** The options and the rows of the commands that measure processor time. */
import { parseArgs } from 'node:util'
import { readNumber, readOrEnd } from './options.ts'

export function readCostOptions(help: string, defaultSeconds: number) {
  return readOrEnd(help, (args) => {
    const { values } = parseArgs({
      args,
      options: {
        seconds: { type: 'string', default: String(defaultSeconds) },
        rounds: { type: 'string', default: '5' },
        only: { type: 'string', default: '' },
        help: { type: 'boolean', default: false },
      },
    })
    return {
      ...values,
      seconds: readNumber('--seconds', values.seconds, 1),
      rounds: readNumber('--rounds', values.rounds, 1),
    }
  })
}

export function printRow(name: string, ...cells: string[]): void {
  console.log(name.padEnd(36) + cells.map((cell) => cell.padStart(11)).join(''))
}
