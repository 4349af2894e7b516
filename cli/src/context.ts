/** What every command receives. */
import type { Environment } from './environment.ts'
import type { GlobalFlags } from './flag.ts'
import type { Output } from './output/output.ts'
import type { Terminal } from './output/terminal.ts'

export type Context = {
  readonly env: Environment
  /** The folder to work in: `--cwd`, or that of the process. */
  readonly cwd: string
  readonly flags: GlobalFlags
  readonly terminal: Terminal
  readonly out: Output
  readonly now: () => number
  /** The place that the token names, by `locate`; unset if something else names one. */
  readonly tokenPlace?: { readonly workspace: string; readonly project?: string; readonly environment?: string }
}
