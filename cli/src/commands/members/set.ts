import type { Member, MemberChange, Role } from '@coffer/sdk'
import { grantHelp, grantWords, openGrants, roles } from '../../access/grant.ts'
import { defineCommand } from '../../command.ts'
import type { Context } from '../../context.ts'
import { CliError, usageError } from '../../error.ts'
import { visible } from '../../output/table.ts'
import { confirm } from '../../prompt.ts'
import { openPlaces, scopeWords } from '../../token/scope.ts'
import { openWorkspace, type Workspace } from '../../token/token.ts'

const flags = {
  grant: {
    type: 'list',
    value: grantWords,
    about: 'A role in a place; several times for several. Replaces all grants',
  },
  role: { type: 'string', value: 'ROLE', about: 'Leaves a single grant, with this role', choices: roles },
  scope: { type: 'list', value: 'PLACE', about: `Leaves a single grant, for this place: ${scopeWords}` },
  yes: { type: 'boolean', short: 'y', about: 'Do not ask' },
} as const

export const set = defineCommand({
  usage: 'EMAIL|ID',
  args: [1, 1],
  findsPlace: true,
  flags,
  details: `
Changes what a member may do where, also of somebody who is only invited. At each place the highest role among the
grants that reach it counts.

${grantHelp}

--role and --scope leave a single grant. If the member has several, the command asks first; without a terminal it needs
--yes.

Examples:
  coffer members set ann@example.com --grant developer:shop/staging --grant member:shop/production
  coffer members set ann@example.com --role admin --scope all`,
  async run(ctx, { flags, args: [given = ''] }) {
    const isSingle = flags.role !== undefined || flags.scope.length > 0
    if (isSingle === flags.grant.length > 0) throw usageError('Give --grant, or --role and --scope.')
    const workspace = openWorkspace(ctx)
    const member = await requireMember(workspace, given)
    const grants = await openGrants(workspace)
    const change: MemberChange = isSingle
      ? await singleGrant(workspace, member, flags.role, flags.scope)
      : { grants: await grants.parse(flags.grant) }
    if (isSingle && member.grants.length > 1 && !flags.yes) {
      await confirmLoss(ctx, member, await grants.describe(member.grants))
    }
    const changed = await workspace.api.member.update({ ws: workspace.ws, id: member.id }, change)
    const text = ctx.flags.json ? '' : await grants.describe(changed.grants)
    ctx.out.show(changed, () => ({
      columns: ['id', 'email', 'grants'],
      rows: [[changed.id, changed.user.email, text]],
    }))
  },
})

async function singleGrant(
  { api, ws }: Workspace,
  { grants: [first, ...others] }: Member,
  word: string | undefined,
  scope: readonly string[],
): Promise<MemberChange> {
  const role: Role | undefined = roles.find((one) => one === word)
  const single = {
    ...(role && { role }),
    ...(scope.length > 0 && { scope: await (await openPlaces(api, ws)).parse(scope) }),
  }
  // The service refuses role and scope for somebody with several grants: they are replaced by the whole list.
  return first && others.length > 0 ? { grants: [{ ...first, ...single }] } : single
}

async function confirmLoss(ctx: Context, member: Member, held: string): Promise<void> {
  ctx.out.warn(`${member.user.email} has ${member.grants.length} grants: ${held}`)
  const message = '--role and --scope replace all of them by one. Continue?'
  if (!(await confirm(ctx, { message, hint: '--grant for each, or --yes' })))
    throw new CliError('cancelled', 'Cancelled.')
}

async function requireMember({ api, ws }: Workspace, given: string): Promise<Member> {
  const members = await api.member.list({ ws })
  const folded = given.toLowerCase()
  const found = members.find(({ id, user }) => id === folded || user.email.toLowerCase() === folded)
  if (!found) throw new CliError('notFound', `There is no member ${visible(given)}.`, 'coffer members list')
  return found
}
