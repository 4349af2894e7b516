/** `keys …`: shows the keys and rotates them while the service runs. */
import type { Config } from '../config.ts'
import type { Context } from '../domain/context.ts'
import { describeCustody } from '../domain/custody.ts'
import {
  listRootStatus,
  rotateEnvironmentKey,
  rotateRoot as rotateRootKey,
  rotateWorkspaceKey,
} from '../domain/workspace/key.ts'
import { custodyName } from '../master-key/custody.ts'
import { type Print, withOperator } from './with-operator.ts'

export async function showKeys(config: Config, print: Print): Promise<number> {
  return withOperator(config, 'read', async (ctx) => {
    const { keys } = ctx
    print(`Master key: from ${config.masterKey.kind}, opens ${keys.keyring.all.length} root key(s).\n`)
    print(await describeMoves(ctx))
    for (const root of await listRootStatus(ctx)) {
      const state = root.isActive ? 'active ' : 'retired'
      const made = new Date(root.createdAt).toISOString()
      print(
        `Root key ${root.id} ${state} check ${root.checkValue} created ${made}: ${root.workspaceKeys} workspace keys, ` +
          `${root.signingKeys} signing keys, ${root.macs} row MACs, ${root.hashes} token and session hashes\n`,
      )
    }
    print(`Signing keys: jwt ${keys.signer('jwt').id}, audit ${keys.signer('audit').id}.\n`)
    return 0
  })
}

async function describeMoves(ctx: Context): Promise<string> {
  const { current, former } = await describeCustody(ctx)
  if (!current) return ''
  const since = `Custody: ${custodyName(current.kind)} since ${new Date(current.movedAt).toISOString()}.`
  if (former.length === 0) return `${since}\n`
  const settings = ctx.keys.isHandedOver ? ` These settings name a former one.` : ''
  return `${since} ${former.length} former key(s) still open this store: finish with keys move --finish.${settings}\n`
}

export async function rotateRoot(config: Config, print: Print): Promise<number> {
  return withOperator(config, 'write', async (ctx) => {
    print(
      'Rotating the root key; the service can keep running. It is safe to stop this command: run it again to continue.\n',
    )
    await rotateRootKey(ctx, (what, done) => print(`  ${what}: ${done}\n`))
    const left = (await listRootStatus(ctx)).filter((root) => !root.isActive)
    print('Done.\n')
    for (const root of left) {
      print(
        `Root key ${root.id} stays until ${root.hashes} token(s) and session(s) created under it are used or end.\n`,
      )
    }
    return 0
  })
}

export async function rotateWorkspace(config: Config, slugOrId: string, print: Print): Promise<number> {
  return withOperator(config, 'write', async (ctx) => {
    await rotateWorkspaceKey(ctx, slugOrId, (what, done) => print(`  ${what}: ${done}\n`))
    print('Done.\n')
    return 0
  })
}

export async function rotateEnvironment(
  config: Config,
  path: { workspace: string; project: string; environment: string },
  print: Print,
): Promise<number> {
  return withOperator(config, 'write', async (ctx) => {
    await rotateEnvironmentKey(ctx, path, (what, done) => print(`  ${what}: ${done}\n`))
    print('Done.\n')
    return 0
  })
}
