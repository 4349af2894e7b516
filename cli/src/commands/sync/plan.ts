import { defineCommand } from '../../command.ts'
import { openProject } from '../../secret/project.ts'
import { requireSync } from '../../sync/sync.ts'

/** The target is asked for all that it has. */
const timeoutMs = 60_000

export const plan = defineCommand({
  usage: 'NAME|ID',
  args: [1, 1],
  findsPlace: true,
  flags: {},
  details: `
Shows what a run would do at the target now, by names. Changes nothing.

Example:
  coffer sync plan heroku`,
  async run(ctx, { args: [given = ''] }) {
    const project = openProject(ctx)
    const { id } = await requireSync(project, given)
    const progress = ctx.out.progress('Asking the target…')
    try {
      const planned = await project.api.sync.plan({ ...project.path, id }, { timeoutMs })
      progress.end()
      const reasons = new Map(planned.reasons.map(({ name, reason }) => [name, reason]))
      ctx.out.show(planned, () => ({
        columns: ['name', 'change', 'reason'],
        rows: [
          ...planned.create.map((name) => [name, 'create', '']),
          ...planned.update.map((name) => [name, 'update', '']),
          ...planned.delete.map((name) => [name, 'delete', '']),
          ...planned.conflict.map((name) => [name, 'conflict', reasons.get(name) ?? '']),
          ...planned.problems.map(({ name, problem }) => [name, 'impossible', problem]),
        ],
        empty: 'A run would change nothing.',
      }))
      ctx.out.note(`${planned.unchanged.length} unchanged.`)
    } finally {
      progress.end()
    }
  },
})
