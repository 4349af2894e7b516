/** Nodes on one PostgreSQL are added, stopped and killed under load; only requests to the ended node may fail. */
import type { Listening } from '../../test/program.ts'
import { runProgram, startListening } from '../../test/start-server.ts'
import { until } from '../../test/wait.ts'
import type { Case } from '../case.ts'
import { ask, pause } from '../load/ask.ts'
import { checkRegisters, createRegisters, startLoad } from '../load/register-load.ts'
import { register, verifyTrail } from '../load/tenant.ts'

const mostNodes = 4
/** Another node may serve an older value for this long. */
const staleMs = 1_000
/** After each change, so that every set of nodes works for a while. */
const writesPerChange = 20

export const nodes: Case = {
  name: 'nodes',
  about: 'nodes added, stopped (SIGTERM) and killed (SIGKILL) under load',
  engines: ['postgres'],
  seconds: 60,
  async run(trial) {
    const { settings } = await trial.createDatabase()
    const open: Listening[] = []
    const ended = new Set<string>()
    trial.onEnd(() => Promise.all(open.map((node) => node.destroy())))
    const add = async () => {
      const node = await startListening(settings)
      const { status } = await ask(node.url, 'GET', '/readyz')
      if (status !== 200) trial.report(`/readyz of a new node returned ${status}`)
      // A port may be given out again.
      ended.delete(node.url)
      open.push(node)
    }
    await add()
    const urlOf = (at: number) => open[at % open.length]?.url ?? ''
    const session = await register(urlOf(0))
    const registers = await createRegisters(trial, urlOf(0), session)
    let turn = 0
    const hasEnded = (url: string) => ended.has(url)
    const load = startLoad(() => urlOf(turn++), registers, {
      refusals: [503],
      mayRefuse: hasEnded,
      mayBeCut: hasEnded,
      staleMs,
      pauseMs: 2,
    })
    const counts = { 'nodes added': 0, 'nodes stopped': 0, 'nodes killed': 0 }
    const moreWrites = async () => {
      const goal = load.acknowledged + writesPerChange
      await until(() => load.acknowledged >= goal || load.unexpected.length > 0 || undefined, 60_000, 'writes go on')
    }
    /** Takes it from the balancer at the same moment: requests that are on their way meet the end. */
    const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
      const [node] = open.splice(trial.dice(open.length), 1)
      if (node === undefined) return
      node.program.kill(signal)
      ended.add(node.url)
      const { code } = await node.program.ended
      if (signal === 'SIGTERM' && code !== 0) trial.report(`a stopped node exited with ${code}`)
      counts[signal === 'SIGTERM' ? 'nodes stopped' : 'nodes killed']++
    }
    const due = trial.scale(20)
    for (let round = 0; round < due && !trial.isOver() && load.unexpected.length === 0; round++) {
      const wanted = 2 + trial.dice(mostNodes - 1)
      while (open.length < wanted) {
        await add()
        counts['nodes added']++
        await moreWrites()
      }
      await pause(trial.dice(50))
      for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
        if (open.length > 1) await end(signal)
        await moreWrites()
      }
      trial.progress(`${round + 1} of ${due} rounds, ${load.acknowledged} acknowledged writes`)
    }
    await load.stop()
    for (const what of load.unexpected) trial.report(what)
    await pause(staleMs)
    for (const { url, program } of open) {
      for (const what of await checkRegisters(url, registers)) trial.report(what)
      for (const what of await verifyTrail(url, session)) trial.report(what)
      if (program.hasEnded()) trial.report('a node exited by itself')
    }
    await Promise.all(open.map((node) => node.stop()))
    const doctor = await runProgram(['doctor'], settings)
    if (doctor.code !== 0) trial.report(`doctor reports: ${doctor.out}${doctor.err}`)
    return {
      ...counts,
      'acknowledged writes': load.acknowledged,
      reads: load.reads,
      'refused with 503': load.refused - load.cutOff,
      'cut off': load.cutOff,
    }
  },
}
