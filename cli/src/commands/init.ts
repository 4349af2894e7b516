import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { defineCommand } from '../command.ts'
import { connect } from '../connect.ts'
import { CliError, usageError } from '../error.ts'
import { chooseEnvironment, chooseProject } from '../place/choice.ts'
import { readSettings, requireSetting } from '../place/place.ts'
import { projectFileName, writeProjectFile } from '../place/project-file.ts'
import { chooseWorkspace } from '../place/workspace-choice.ts'

export const init = defineCommand({
  usage: '',
  args: [0, 0],
  flags: {
    force: { type: 'boolean', about: 'Replace the file' },
    create: { type: 'boolean', about: 'Create the project and the environment if they are missing' },
  },
  details: `
Writes ${projectFileName}, which names the service, the workspace, the project and the
environment of this folder. Commit it: it holds no secret. Asks for what the flags do not
name; with -p and -e it asks nothing and needs no terminal.

Examples:
  coffer init
  coffer init -p api -e development
  coffer init -w acme -p api -e staging --create`,
  async run(ctx, { flags }) {
    const path = join(ctx.cwd, projectFileName)
    const isThere = existsSync(path)
    if (isThere && !flags.force) throw usageError(`${path} exists already.`, 'coffer init --force')
    const settings = readSettings(ctx)
    const url = requireSetting(settings, 'url')
    const api = connect(ctx)
    const workspace = await chooseWorkspace(ctx, api, settings.find('workspace')?.value)
    if (!workspace) throw new CliError('notFound', 'You are in no workspace yet.', 'ask an admin for an invite')
    const ws = workspace.slug
    /** A file is about to be replaced, so it only helps where nobody can be asked. */
    const wanted = (name: 'project' | 'environment') => {
      const found = settings.find(name)
      return found?.from === settings.file?.path && ctx.terminal.isInteractive ? undefined : found?.value
    }
    const prj = await chooseProject(ctx, api, ws, wanted('project'), flags.create)
    const environment = await chooseEnvironment(ctx, api, { ws, prj }, wanted('environment'), flags.create)
    const kept = isThere ? settings.file?.content : undefined
    const content = { ...kept, url, workspace: ws, project: prj, environment }
    writeProjectFile(ctx.cwd, content)
    ctx.out.note(`Wrote ${path}: project ${prj}, environment ${environment}.`)
    ctx.out.show(content, () => ({ columns: [], rows: [] }))
  },
})
