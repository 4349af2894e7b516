/** What a command declares: its flags, its arguments and what it does. */
import type { Context } from './context.ts'
import type { ExitName } from './error.ts'
import type { Flags, FlagValues } from './flag.ts'

export type Input<Declared extends Flags> = {
  readonly flags: FlagValues<Declared>
  /** Arguments before `--`. */
  readonly args: readonly string[]
  /** Arguments after `--`; undefined without one. */
  readonly rest: readonly string[] | undefined
}

export type Command<Declared extends Flags = Flags> = {
  /** Arguments in the help, such as `KEY…`. */
  readonly usage: string
  /** Fewest and most arguments before `--`. */
  readonly args: readonly [min: number, max: number]
  /** True for `coffer run`, whose command follows `--`. */
  readonly takesRest?: boolean
  readonly flags: Declared
  /** Also takes its workspace, project and environment from the token. */
  readonly findsPlace?: boolean
  /** The exit code of every failure, for a command whose other codes belong to somebody else. */
  readonly failure?: ExitName
  /** Further paragraphs of the help: examples, rules. */
  readonly details?: string
  /** Returns the exit code; nothing means 0. */
  run(ctx: Context, input: Input<Declared>): Promise<number | undefined> | Promise<void>
}

/** Infers the types of the flags. */
export const defineCommand = <const Declared extends Flags>(command: Command<Declared>): Command =>
  // The parser gives each command exactly the flags that it declares.
  command as Command

export type CommandEntry = {
  readonly name: string
  readonly aliases?: readonly string[]
  readonly about: string
  /** Not listed in the help. */
  readonly isHidden?: boolean
} & (
  | { readonly load: () => Promise<Command>; readonly commands?: undefined }
  | { readonly commands: readonly CommandEntry[]; readonly load?: undefined }
)
