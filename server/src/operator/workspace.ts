/** `workspace transfer`: gives a workspace whose owner is gone to another person. */
import type { Config } from '../config.ts'
import { transferWorkspace } from '../domain/workspace/transfer.ts'
import { type Print, withOperator } from './with-operator.ts'

export async function transfer(config: Config, workspace: string, email: string, print: Print): Promise<number> {
  return withOperator(config, 'write', async (ctx) => {
    const heir = await transferWorkspace(ctx, workspace, email)
    print(`${heir.email} owns the workspace ${workspace} now. Its former owner stays an admin of it.\n`)
    return 0
  })
}
