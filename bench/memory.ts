/** Memory growth over a million reads in a thousand environments. */
import type { Generator } from './load.ts'
import type { Running } from './process.ts'
import { apiOf, type Seeded } from './seed.ts'

const environmentsWanted = 1_000
const readsWanted = 1_000_000
const connections = 64
const roundSeconds = 5

export type Memory = { readonly reads: number; readonly beforeMb: number; readonly residentMb: readonly number[] }

export async function measureMemory(
  service: Running,
  seeded: Seeded,
  generator: Generator,
  progress: (text: string) => void,
): Promise<Memory> {
  const paths = await createEnvironments(service, seeded, progress)
  const beforeMb = service.residentMb()
  const residentMb: number[] = []
  let reads = 0
  while (reads < readsWanted) {
    const load = { url: service.url, headers: { authorization: `Bearer ${seeded.token}` }, paths, connections }
    const { perSecond, errors } = await generator.run({ ...load, seconds: roundSeconds })
    if (errors > 0) throw new Error(`${errors} reads failed`)
    reads += Math.round(perSecond * roundSeconds)
    residentMb.push(Math.round(service.residentMb()))
    progress(`${Math.min(reads, readsWanted)} of ${readsWanted} reads, ${residentMb.at(-1)} MB`)
  }
  return { reads, beforeMb: Math.round(beforeMb), residentMb }
}

/** A new project has three environments; each environment gets one secret. */
async function createEnvironments(
  service: Running,
  seeded: Seeded,
  progress: (text: string) => void,
): Promise<string[]> {
  const api = apiOf(service, seeded.session)
  const paths: string[] = []
  while (paths.length < environmentsWanted) {
    const slug = `memory-${paths.length}`
    const { environments } = await api.project.create({ ws: 'main' }, { name: slug, slug, teamId: seeded.teamId })
    const ids = environments.map(({ id }) => id)
    const secrets = [{ key: 'DATABASE_URL', value: `postgres://db.example.com/${slug}` }]
    await api.secret.create({ ws: 'main', prj: slug }, { environments: ids, secrets })
    paths.push(...ids.map((id) => `/v1/workspace/main/project/${slug}/secret/DATABASE_URL?environmentId=${id}`))
    progress(`creating environments: ${Math.min(paths.length, environmentsWanted)} of ${environmentsWanted}`)
  }
  return paths.slice(0, environmentsWanted)
}
