/** `policy reset`: opens a workspace that its policy has closed for its owner. */
import type { Config } from '../config.ts'
import { resetPolicy } from '../domain/workspace/policy.ts'
import { type Print, withOperator } from './with-operator.ts'

export async function removePolicy(config: Config, workspace: string, print: Print): Promise<number> {
  return withOperator(config, 'write', async (ctx) => {
    await resetPolicy(ctx, workspace)
    print(`The policy of ${workspace} is removed: its owner can set it again.\n`)
    return 0
  })
}
