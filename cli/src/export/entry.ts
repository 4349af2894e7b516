/** Names and values for formats that the command line writes itself. */
import { CliError } from '../error.ts'

export type Entry = readonly [key: string, value: string]

/** Names the key, never the value. */
export const cannotHold = (format: string, key: string, reason: string) =>
  new CliError('failure', `The format ${format} cannot hold ${key}: ${reason}.`)
