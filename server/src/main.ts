/** The process: `serve` by default, the operator's commands otherwise. Anything that stops it says why in a sentence. */
import { runCommand } from './command.ts'

process.exitCode = await runCommand(process.argv.slice(2), process.env)
// What has failed half-way may have left something open, which would keep the process alive.
if (process.exitCode !== 0) process.exit()
