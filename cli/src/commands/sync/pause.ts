import type { Api } from '@coffer/sdk'
import { defineCommand } from '../../command.ts'
import { openProject } from '../../secret/project.ts'
import { requireSync } from '../../sync/sync.ts'

/** Switches a sync, and shows its state afterwards. */
const switchCommand = (call: 'pause' | 'resume', details: string) =>
  defineCommand({
    usage: 'NAME|ID',
    args: [1, 1],
    findsPlace: true,
    flags: {},
    details,
    async run(ctx, { args: [given = ''] }) {
      const project = openProject(ctx)
      const { id, name } = await requireSync(project, given)
      const path = { ...project.path, id }
      const calls: Pick<Api['sync'], 'pause' | 'resume'> = project.api.sync
      await calls[call](path)
      const sync = await project.api.sync.read(path)
      ctx.out.show(sync, () => ({ columns: ['name', 'state'], rows: [[name, sync.state]] }))
    },
  })

export const pause = switchCommand(
  'pause',
  `
Nothing is pushed until the sync is resumed.

Example:
  coffer sync pause heroku`,
)

export const resume = switchCommand(
  'resume',
  `
Pushes again after a pause, or after somebody has looked at what blocked the sync.

Example:
  coffer sync resume heroku`,
)
