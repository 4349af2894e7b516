/** The process: `serve` by default, the operator's commands otherwise. Anything that stops it says why in a sentence. */
import { enableCompileCache } from 'node:module'

const startedAt = performance.now()
enableCompileCache()
const { runCommand } = await import('./command.ts')
process.exitCode = await runCommand(process.argv.slice(2), process.env, startedAt)
