/** A plugin for builds: in them, `readCommit` returns the commit that they are made from. */
import { join } from 'node:path'
import type { Plugin } from 'rolldown'
import { readCommit } from './commit.ts'

export const fixedCommit: Plugin = {
  name: 'fixed-commit',
  load: (id) =>
    id === join(import.meta.dirname, 'commit.ts')
      ? `export const readCommit = () => ${JSON.stringify(readCommit()) ?? 'undefined'}`
      : undefined,
}
