/** Entry point: `serve` by default, or an operator command. A process that stops says why in one sentence. */
import { runCommand } from './command.ts'

process.exitCode = await runCommand(process.argv.slice(2), process.env)
// A failed command may have left a connection open, which would keep the process alive.
if (process.exitCode !== 0) process.exit()
