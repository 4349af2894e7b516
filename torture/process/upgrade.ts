/** A rolling upgrade: nodes are replaced one after the other by a later version under load, and nothing is lost. */
import { join, resolve } from 'node:path'
import { type Listening, listening, type Program, type Settings, startNode } from '../../test/program.ts'
import { setupCode } from '../../test/setup-code.ts'
import { serverMain } from '../../test/start-server.ts'
import { until } from '../../test/wait.ts'
import type { Case } from '../case.ts'
import { pause } from '../load/ask.ts'
import { checkRegisters, createRegisters, startLoad } from '../load/register-load.ts'
import { register, verifyTrail } from '../load/tenant.ts'

const nodeCount = 3
const nextVersion = join(import.meta.dirname, 'next-version.ts')
/** Another node may serve an older value for this long. */
const staleMs = 1_000
/** Of each mixture of versions. */
const writesPerStage = 20

export const upgrade: Case = {
  name: 'upgrade',
  about: 'nodes replaced one after the other by a later version under load',
  engines: ['postgres'],
  seconds: 45,
  async run(trial) {
    const { settings } = await trial.createDatabase()
    const running = new Set<Listening>()
    trial.onEnd(() => Promise.all([...running].map((node) => node.destroy())))
    const start = async (version: number) => {
      const node = await listening(startVersion(settings, version, trial.previous))
      running.add(node)
      return node
    }
    const nodes: Listening[] = []
    for (let count = 0; count < nodeCount; count++) nodes.push(await start(0))
    const urlOf = (at: number) => nodes[at]?.url ?? ''
    const session = await register(urlOf(0))
    const registers = await createRegisters(trial, urlOf(0), session)
    const stopping = new Set<string>()
    let turn = 0
    /** A load balancer: each request goes to the next node that is not known to stop. */
    const balance = () => {
      const open = nodes.filter(({ url }) => !stopping.has(url))
      return open[turn++ % open.length]?.url ?? ''
    }
    const load = startLoad(balance, registers, {
      refusals: [503],
      mayRefuse: (url) => stopping.has(url),
      staleMs,
      pauseMs: 2,
    })
    const counts = { upgrades: 0, 'nodes replaced': 0, 'acknowledged writes': 0, reads: 0, 'refused with 503': 0 }
    const moreWrites = async () => {
      const goal = load.acknowledged + writesPerStage
      await until(() => load.acknowledged >= goal || load.unexpected.length > 0 || undefined, 120_000, 'writes go on')
    }
    const due = trial.scale(5)
    await moreWrites()
    while (counts.upgrades < due && !trial.isOver() && load.unexpected.length === 0) {
      for (const [at, old] of nodes.entries()) {
        old.program.kill('SIGTERM')
        stopping.add(old.url)
        const { code } = await old.program.ended
        running.delete(old)
        if (code !== 0) trial.report(`a node exited with ${code}`)
        nodes[at] = await start(counts.upgrades + 1)
        await moreWrites()
        counts['nodes replaced']++
        trial.progress(`${counts['nodes replaced']} of ${due * nodeCount} nodes replaced`)
      }
      counts.upgrades++
    }
    await load.stop()
    for (const what of load.unexpected) trial.report(what)
    await pause(staleMs)
    for (const { url } of nodes) {
      for (const what of await checkRegisters(url, registers)) trial.report(what)
      for (const what of await verifyTrail(url, session)) trial.report(what)
    }
    for (const node of nodes) await node.stop()
    const doctor = await startVersion(settings, counts.upgrades, trial.previous, ['doctor']).ended
    if (doctor.code !== 0) trial.report(`doctor reports: ${doctor.out}${doctor.err}`)
    return { ...counts, 'acknowledged writes': load.acknowledged, reads: load.reads, 'refused with 503': load.refused }
  },
}

/** Version 0 is the checkout of the version before, or this one; every further version has one more migration. */
function startVersion(
  settings: Settings,
  version: number,
  previous: string | undefined,
  args: readonly string[] = [],
): Program {
  const sources = (folder: string) => join(folder, 'server/src/main.ts')
  const first = previous === undefined ? serverMain : sources(resolve(previous))
  // The steps of the migration can be added to the sources alone.
  const program = version === 0 ? [first] : ['--import', nextVersion, sources(join(import.meta.dirname, '../..'))]
  const NEXT_VERSIONS = String(previous === undefined ? version : version - 1)
  return startNode([...program, ...args], {
    ...{
      COFFER_PORT: '0',
      COFFER_RATE_LIMIT: '0',
      COFFER_SHARE_RATE_LIMIT: '0',
      COFFER_SETUP_CODE: setupCode,
      NEXT_VERSIONS,
    },
    ...settings,
  })
}
