import { defineCommand } from '../../command.ts'
import { visible } from '../../output/table.ts'
import { openProject } from '../../secret/project.ts'
import { listSyncs, requireSync, runTable, syncTable } from '../../sync/sync.ts'

const shownRuns = 10

export const status = defineCommand({
  usage: '[NAME|ID]',
  args: [0, 1],
  findsPlace: true,
  flags: { watch: { type: 'boolean', about: 'Stay, and print again whenever something changes' } },
  details: `
Shows the syncs of the project: where each pushes to, its state and its last problem. With a NAME it shows the last runs
of that sync.

States: active; failing (retries by itself); needs_reauth (the target refuses the credential) and blocked: somebody must
look; paused; draft (its setup is not finished); removing.

Examples:
  coffer sync status
  coffer sync status heroku --watch`,
  async run(ctx, { flags, args: [given] }) {
    const project = openProject(ctx)
    const sync = given === undefined ? undefined : await requireSync(project, given)
    const read = async () => {
      if (!sync) return { syncs: await listSyncs(project) }
      const path = { ...project.path, id: sync.id }
      const detail = await project.api.sync.read(path)
      return { detail, runs: await project.api.sync.listRuns(path, { limit: shownRuns }) }
    }
    const show = async ({ syncs, detail, runs = [] }: Awaited<ReturnType<typeof read>>) => {
      if (!detail) {
        const table = ctx.flags.json ? { columns: [], rows: [] } : await syncTable(ctx, project, syncs ?? [])
        return ctx.out.show(syncs, () => table)
      }
      if (!ctx.flags.json) {
        const problem = detail.lastError === null ? '' : `: ${detail.lastError}`
        ctx.out.note(visible(`${detail.name} → ${detail.target ?? 'no target yet'}, ${detail.state}${problem}`))
      }
      ctx.out.show({ ...detail, runs }, () => runTable(ctx, runs))
    }
    if (!flags.watch) return show(await read())
    const { watch } = await import('../../sync/watch.ts')
    await watch(ctx.out, read, show)
  },
})
