import { defineCommand } from '../command.ts'
import { completionScripts, type ShellName, shells } from '../completion/script.ts'
import { usageError } from '../error.ts'

export const completion = defineCommand({
  usage: shells.join('|'),
  args: [1, 1],
  flags: {},
  details: `
Prints a script that completes commands, flags, and the names of projects, environments
and secrets with the Tab key; after run --, your commands and files. Load it in the start file of your shell:

  bash        eval "$(coffer completion bash)"                       in ~/.bashrc
  zsh         source <(coffer completion zsh)                        in ~/.zshrc, after compinit
  fish        coffer completion fish | source                        in ~/.config/fish/config.fish
  powershell  coffer completion powershell | Out-String | Invoke-Expression   in $PROFILE`,
  async run(ctx, { args: [name] }) {
    if (!shells.includes(name as ShellName)) {
      throw usageError(`The shell must be one of: ${shells.join(', ')}.`, 'coffer completion bash')
    }
    // One of the shells, as just checked.
    await ctx.out.raw(completionScripts[name as ShellName])
  },
})
