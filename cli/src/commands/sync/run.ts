import type { SyncRunDetail } from '@coffer/sdk'
import { defineCommand } from '../../command.ts'
import type { Context } from '../../context.ts'
import { readDuration } from '../../duration.ts'
import { exitCodes } from '../../error.ts'
import { visible } from '../../output/table.ts'
import { openProject } from '../../secret/project.ts'
import { requireSync } from '../../sync/sync.ts'

export const run = defineCommand({
  usage: 'NAME|ID',
  args: [1, 1],
  findsPlace: true,
  flags: { timeout: { type: 'string', value: 'TIME', about: 'How long to wait for the end; 10m by default' } },
  details: `
Pushes now, and waits for the end. This also overwrites what somebody has changed at the target: look at coffer sync plan
first. Ends with 1 if the run fails, or if a single name could not be pushed.

Example:
  coffer sync run heroku --timeout 2m`,
  async run(ctx, { flags, args: [given = ''] }) {
    const limitMs = readDuration(flags.timeout, '--timeout', { unset: '10m' })
    const project = openProject(ctx)
    const { id, name } = await requireSync(project, given)
    const { newestRunId, waitForRun } = await import('../../sync/watch.ts')
    const before = await newestRunId(project, id)
    await project.api.sync.run({ ...project.path, id })
    const progress = ctx.out.progress(`Pushing ${visible(name)}…`)
    try {
      const ended = await waitForRun(project, id, before, limitMs)
      progress.end()
      return report(ctx, name, ended)
    } finally {
      progress.end()
    }
  },
})

function report(ctx: Context, name: string, ended: SyncRunDetail): number {
  ctx.out.show(ended, () => ({
    columns: ['name', 'outcome', 'reason'],
    rows: ended.items.map((item) => [item.name, item.outcome, item.message ?? '']),
    empty: 'Nothing had to change.',
  }))
  const { created, updated, deleted, unchanged, conflicts, failed } = ended.counts
  const counts = Object.entries({ created, updated, deleted, unchanged, conflicts, failed })
    .filter(([, count]) => count > 0)
    .map(([word, count]) => `${count} ${word}`)
  const summary = `${visible(name)}: ${ended.state}${counts.length > 0 ? `; ${counts.join(', ')}` : ''}.`
  if (ended.state === 'succeeded') {
    ctx.out.note(summary)
    return exitCodes.ok
  }
  ctx.out.warn(summary)
  if (ended.error !== null) ctx.out.warn(visible(ended.error))
  return exitCodes.failure
}
