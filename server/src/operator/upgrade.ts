/** `upgrade …`: shows what waits for the end of an upgrade, and ends it. */
import type { Config } from '../config.ts'
import { findOutdated, finishUpgrade, readUpgradeStatus } from '../domain/upgrade/upgrade.ts'
import { type Print, withOperator } from './with-operator.ts'

export function showUpgrade(config: Config, print: Print): Promise<number> {
  return withOperator(config, 'read', async (ctx) => {
    const status = await readUpgradeStatus(ctx)
    const { level, newestLevel, waiting, nodes } = status
    print(waiting.length === 0 ? `The upgrade is finished (level ${level}).\n` : 'The upgrade is not finished.\n')
    for (const { name, about } of waiting) print(`  waits  ${name}: from then on, ${about}\n`)
    // The name of a machine is other people's text: escaped, so that it cannot control the terminal.
    for (const { name, version, seenAt } of nodes) {
      print(`  node   ${JSON.stringify(name)}: version ${version}, last seen ${new Date(seenAt).toISOString()}\n`)
    }
    if (waiting.length === 0) return 0
    if (level > newestLevel) return 0
    const outdated = findOutdated(status).length
    print(
      outdated > 0
        ? `${outdated} of the nodes run a version that does not know this: upgrade them first.\n`
        : 'Run "upgrade finish" once no node of an earlier version runs any more; 0.1.0 is not in this list.\n',
    )
    return 0
  })
}

export function endUpgrade(config: Config, print: Print): Promise<number> {
  return withOperator(config, 'write', async (ctx) => {
    const done = await finishUpgrade(ctx)
    if (done.length === 0) print('The upgrade was finished before: nothing was changed.\n')
    for (const { name, about } of done) print(`  on     ${name}: ${about}\n`)
    return 0
  })
}
