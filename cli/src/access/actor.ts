/** People and machines of the workspace, by what a person calls them. */
import type { Api } from '@coffer/sdk'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import { visible } from '../output/table.ts'
import { listTokens, stateOf, type Workspace } from '../token/token.ts'

const isId = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

/** The address or the id that the service finds somebody by. Tokens, service accounts and identities also have names. */
export async function requireActor(ctx: Context, workspace: Workspace, given: string): Promise<string> {
  if (given.includes('@') || isId(given)) return given
  const { api, ws } = workspace
  const [tokens, accounts, identities] = await Promise.all([
    listTokens(workspace),
    api.service.list({ ws }),
    api.oidc.list({ ws }),
  ])
  const named = [...tokens.filter((token) => stateOf(ctx, token) === 'active'), ...accounts, ...identities]
  const [found, another] = named.filter(({ name }) => name === given)
  if (!found) {
    throw new CliError(
      'notFound',
      `Nobody here is called ${visible(given)}.`,
      'the address of a person, or the name or id of a token, a service account or an identity',
    )
  }
  if (another) throw usageError(`Several are called ${visible(given)}: name one by its id.`, 'coffer access --json')
  return found.id
}

type Account = Awaited<ReturnType<Api['service']['list']>>[number]

/** By its id or its name. */
export async function requireServiceAccount({ api, ws }: Workspace, given: string): Promise<Account> {
  const accounts = await api.service.list({ ws })
  const found = accounts.find(({ id, name }) => name === given || id === given.toLowerCase())
  if (found) return found
  throw new CliError(
    'notFound',
    `There is no service account ${visible(given)}.`,
    accounts.length > 0 ? 'coffer service-account list' : 'coffer service-account create',
  )
}
