import { requireAction } from '../access/action.ts'
import { requireActor } from '../access/actor.ts'
import { anywhereFlag, findPlace } from '../access/place.ts'
import { defineCommand } from '../command.ts'
import { exitCodes } from '../error.ts'
import { openWorkspace } from '../token/token.ts'

export const explain = defineCommand({
  usage: 'ACTOR ACTION',
  args: [2, 2],
  findsPlace: true,
  flags: {
    anywhere: anywhereFlag,
    team: { type: 'string', value: 'NAME', about: 'The team, for actions such as project:create' },
    ip: { type: 'string', value: 'ADDRESS', about: 'The address that the request comes from' },
    'exit-code': { type: 'boolean', about: 'End with exit code 4 if it is not allowed' },
  },
  details: `
Says whether somebody may do something, and by which grant, token, scope and policy. The service decides as it does for
a request, so the answer is what a request would get. For admins of the whole workspace.

ACTOR is the address of a person, or the name or id of a token, a service account or an identity.
ACTION is read, write or share, or a permission of the API such as member:write, environment:write or sync:write.

Examples:
  coffer explain ann@example.com write -p shop -e production
  coffer explain ci read -e production --ip 203.0.113.7
  coffer explain ann@example.com audit:read --json
  coffer explain deploy write --anywhere --exit-code`,
  async run(ctx, { flags, args: [given = '', word = ''] }) {
    const action = requireAction(word)
    const place = flags.team === undefined ? findPlace(ctx, flags.anywhere) : { team: flags.team }
    const workspace = openWorkspace(ctx)
    const actor = await requireActor(ctx, workspace, given)
    const query = { actor, action, ...place, ...(flags.ip !== undefined && { ip: flags.ip }) }
    const answer = await workspace.api.access.explain({ ws: workspace.ws }, query)
    ctx.out.show(answer, () => ({
      columns: ['answer', 'reason'],
      rows: answer.reasons.map((reason, index) => [index > 0 ? '' : answer.allowed ? 'yes' : 'no', reason]),
    }))
    return flags['exit-code'] && !answer.allowed ? exitCodes.forbidden : exitCodes.ok
  },
})
