import { grantHelp, grantWords, openGrants } from '../../access/grant.ts'
import { defineCommand } from '../../command.ts'
import { usageError } from '../../error.ts'
import { openWorkspace } from '../../token/token.ts'

export const create = defineCommand({
  usage: 'NAME',
  args: [1, 1],
  findsPlace: true,
  flags: {
    grant: { type: 'list', value: grantWords, about: 'A role in a place; several times for several' },
  },
  details: `
Creates a service account: a machine whose tokens do not end when a person leaves. It cannot sign in.

${grantHelp}

Examples:
  coffer service-account create deploy --grant developer:shop/staging --grant member:shop/production
  coffer service-account create backup --grant member:all`,
  async run(ctx, { flags, args: [name = ''] }) {
    if (flags.grant.length === 0) throw usageError('--grant is missing.', '--grant member:shop/production')
    const workspace = openWorkspace(ctx)
    const grants = await openGrants(workspace)
    const wanted = await grants.parse(flags.grant)
    const created = await workspace.api.service.create({ ws: workspace.ws }, { name, grants: wanted })
    const text = ctx.flags.json ? '' : await grants.describe(created.grants)
    ctx.out.show(created, () => ({ columns: ['id', 'name', 'grants'], rows: [[created.id, created.name, text]] }))
    ctx.out.note('It has no token yet: coffer service-account token')
  },
})
