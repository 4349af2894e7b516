/** kill -9 at random moments: acknowledged writes survive, and other writes are applied completely or not at all. */
import { join } from 'node:path'
import type { Listening } from '../../test/program.ts'
import { runProgram, startListening } from '../../test/start-server.ts'
import { findBrokenRows } from '../../test/store.ts'
import { until } from '../../test/wait.ts'
import { type Place, type State, sorted, startWriteLoad, stateOf } from '../../test/write-load.ts'
import { bothEngines, type Case, type Trial } from '../case.ts'
import { ask, must, pause } from '../load/ask.ts'
import { openLedger } from '../load/ledger.ts'
import { createProject, register, verifyTrail } from '../load/tenant.ts'

/** An audit trail spans several kills, but stays short enough to verify after each. */
const killsPerWorkspace = 10
const readers = 2

type Cycle = Place & { readonly since: string }

export const kill: Case = {
  name: 'kill',
  about: 'kill -9 at random moments under mixed load; every acknowledged write is checked',
  engines: bothEngines,
  seconds: 170,
  async run(trial) {
    const { settings } = await trial.createDatabase()
    const folder = trial.createFolder()
    let service = await startListening(settings)
    trial.onEnd(() => service.destroy())
    const token = await register(service.url)
    const survived: [Cycle, State][] = []
    const counts = { kills: 0, 'acknowledged writes': 0, 'requests cut off': 0, reads: 0 }
    const due = trial.scale(110)
    while (counts.kills < due && !trial.isOver()) {
      const place = await prepare(service, token, counts.kills)
      const ledger = await openLedger(join(folder, `ledger-${counts.kills}`))
      const load = startWriteLoad(service.url, token, place, trial.dice, ledger)
      const reading = startReaders(service.url, token, place)
      const killAfter = trial.dice(80)
      const { unexpected } = load
      await until(
        () => load.acknowledged.length > killAfter || unexpected.length > 0 || undefined,
        120_000,
        'the load runs',
      )
      await pause(trial.dice(6))
      await service.destroy()
      await load.ended
      const read = await reading
      for (const what of [...unexpected, ...read.unexpected]) trial.report(what)

      for (const what of await findBrokenRows(settings, place.project)) trial.report(`inconsistent rows: ${what}`)
      service = await startListening(settings)
      const found = await readState(service, token, place)
      for (const [prefix, { state, pending, acknowledged }] of ledger.read()) {
        counts['acknowledged writes'] += acknowledged.length
        if (pending) counts['requests cut off']++
        const own = new Map([...found].filter(([name]) => name.includes(` ${prefix}`)))
        const possible = [state, ...(pending ? [pending] : [])].map(textOf)
        if (!possible.includes(textOf(own))) trial.report(`${prefix} has ${textOf(own)}, expected one of ${possible}`)
      }
      const recorded = load.acknowledged
      for (const what of await findUnrecorded(service, token, place, recorded)) trial.report(what)
      await ledger.close()
      survived.push([place, found])
      counts.reads += read.count
      counts.kills++
      trial.progress(`${counts.kills} of ${due} kills, ${counts['acknowledged writes']} acknowledged writes`)
    }
    // Later kills must not affect what survived earlier ones.
    for (const [place, state] of survived) {
      if (textOf(await readState(service, token, place)) !== textOf(state))
        trial.report(`${place.prefix} was changed later`)
    }
    await stopCleanly(trial, service, settings)
    return counts
  },
}

const textOf = (state: State) => JSON.stringify(sorted(state))

async function stopCleanly(trial: Trial, service: Listening, settings: Record<string, string>): Promise<void> {
  const { code } = await service.stop()
  if (code !== 0) trial.report(`the service exited with ${code}`)
  const doctor = await runProgram(['doctor'], settings)
  if (doctor.code !== 0) trial.report(`doctor reports: ${doctor.out}`)
}

/** A new project for every kill, and a new workspace after every ten. */
async function prepare({ url }: Listening, token: string, kills: number): Promise<Cycle> {
  const since = new Date().toISOString()
  const workspace = `kills-${Math.floor(kills / killsPerWorkspace)}`
  if (kills % killsPerWorkspace === 0) {
    await must(url, 'POST', '/v1/workspace', { token, body: { name: workspace, slug: workspace } })
  }
  const project = await createProject(url, token, `cycle-${kills}`, workspace)
  // The load uses only fields that the response has.
  return { workspace, project: project as Place['project'], prefix: `C${kills}_`, since }
}

async function startReaders(url: string, token: string, { workspace, project }: Place) {
  const path = `/v1/workspace/${workspace}/project/${project.slug}/secret`
  const read = { count: 0, unexpected: [] as string[] }
  const work = async () => {
    for (;;) {
      try {
        const { status, text } = await ask(url, 'GET', path, { token })
        if (status !== 200) read.unexpected.push(`GET ${path}: ${status} ${text}`)
        read.count++
      } catch {
        return
      }
    }
  }
  await Promise.all(Array.from({ length: readers }, work))
  return read
}

async function readState({ url }: Listening, token: string, place: Place): Promise<State> {
  const root = `/v1/workspace/${place.workspace}`
  const path = `${root}/project/${place.project.slug}/secret`
  const secrets = await must<Parameters<typeof stateOf>[1]>(url, 'GET', path, { token })
  const teams = await must<{ name: string }[]>(url, 'GET', `${root}/team`, { token })
  return stateOf(place, secrets, teams)
}

/** Verifies the audit chain, and that it contains every acknowledged request. */
async function findUnrecorded(service: Listening, token: string, place: Cycle, requests: readonly string[]) {
  const problems = await verifyTrail(service.url, token, place.workspace)
  const path = `/v1/workspace/${place.workspace}/audit?format=ndjson&from=${place.since}`
  const { text } = await ask(service.url, 'GET', path, { token })
  const recorded = new Set(
    text
      .split('\n')
      .filter(Boolean)
      .map((line): unknown => JSON.parse(line).requestId),
  )
  const missing = requests.filter((id) => !recorded.has(id))
  return [...problems, ...missing.map((id) => `request ${id} is not in the audit trail`)]
}
