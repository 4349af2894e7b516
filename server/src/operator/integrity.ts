/** `integrity accept`: opens a workspace that was closed because rows were removed or put back in the database. */
import type { Config } from '../config.ts'
import { acceptRows } from '../domain/workspace/row-set.ts'
import { type Print, withOperator } from './with-operator.ts'

export function acceptWorkspace(config: Config, workspace: string, print: Print): Promise<number> {
  return withOperator(config, 'write', async (ctx) => {
    const { access, token, identity } = await acceptRows(ctx, workspace)
    print(
      `The rows of ${workspace} count as they are: ${access} members, service accounts and policies, ${token} tokens, ${identity} identities.\n`,
    )
    return 0
  })
}
