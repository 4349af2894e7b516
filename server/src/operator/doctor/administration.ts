/** Tokens whose calls are refused since only sessions and marked tokens decide who else has access. */
import type { Services } from '../../domain/context.ts'
import { isEnded } from '../../domain/credential/token.ts'
import { dayMs } from '../../domain/time.ts'
import { listAdministeringTokens } from '../../store/audit/administration.ts'
import { type Check, type Finding, note, ok } from './finding.ts'

const days = 30
const maxNamed = 50

export function administrationChecks(services: Services): Check[] {
  return [
    {
      name: 'tokens that administer',
      why: 'A token may have lost calls that something depends on.',
      fix: 'run the check again once the store answers.',
      isLong: true,
      run: () => findTokens(services),
    },
  ]
}

async function findTokens(services: Services): Promise<Finding> {
  const { engine, store, now } = services
  const names: string[] = []
  for await (const { id, workspaceId, lastAt } of listAdministeringTokens(engine, now() - days * dayMs)) {
    const token = await store.tokens.find(id, workspaceId)
    const workspace = token && (await store.workspaces.find(workspaceId))
    if (!workspace || token.mayAdminister || isEnded(token, now())) continue
    // People chose these names: escaped, they cannot control the terminal.
    const [name, slug] = [JSON.stringify(token.name), JSON.stringify(workspace.slug)]
    names.push(`${name} of ${slug} (${id}, last ${new Date(lastAt).toISOString()})`)
  }
  if (names.length === 0) return ok(`no token without the mark used these calls in the last ${days} days`)
  const more = names.length > maxNamed ? ` and ${names.length - maxNamed} more` : ''
  return note(
    `used in the last ${days} days by ${names.slice(0, maxNamed).join(', ')}${more}`,
    'Members, invites, service accounts, identities, the policy and transfers of tokens take a session now, so these tokens get 403 there.',
    'sign in for these calls, or create a token for them: coffer token create --may-administer (not for the policy and transfers).',
  )
}
