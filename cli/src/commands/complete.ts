import { type Command, type CommandEntry, defineCommand } from '../command.ts'
import { complete } from '../completion/complete.ts'
import { namesFrom } from '../completion/names.ts'

/** Called by the scripts of `coffer completion` with each press of the Tab key. Never prints an error. */
export const completeWords = (table: readonly CommandEntry[]): Command =>
  defineCommand({
    usage: '-- WORD…',
    args: [0, 0],
    takesRest: true,
    flags: {},
    async run(ctx, { rest = [] }) {
      try {
        const found = await complete(table, rest, namesFrom(ctx))
        await ctx.out.raw(found.map(({ word, about = '' }) => `${word}\t${about}\n`).join(''))
      } catch {
        // A broken .coffer.json is the matter of the command itself.
      }
    },
  })
