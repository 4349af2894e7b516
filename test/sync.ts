/** A service with fake vendors, helpers for the setup wizard, and sync runs on demand. */
import type {
  FlowField,
  FlowProgress,
  FlowStep,
  StartedSync,
  Sync,
  SyncRun,
  SyncRunDetail,
} from '@coffer/contract/sync'
import { expect } from 'vitest'
import { claimSync, runSync } from '../server/src/domain/sync/run/run.ts'
import type { Outbound } from '../server/src/outbound.ts'
import type { Provider, Values } from '../server/src/providers/provider.ts'
import { registerOwner, startService, type TestService, type TestUser } from './harness.ts'
import { createSecretProject, type SecretProject } from './secret-project.ts'
import type { ProviderCase } from './vendor/every.ts'
import {
  type Fake,
  type FakeRequest,
  type InjectedFailure,
  outboundWithoutSockets,
  type RunningFake,
  startFake,
} from './vendor/fake.ts'

export type SyncWorld = {
  readonly service: TestService
  readonly owner: TestUser
  readonly project: SecretProject
  readonly running: RunningFake
  readonly fake: Fake
  readonly provider: Provider
  readonly slug: string
}

/** Fixes the clock, so that due times do not depend on the duration of a test. */
function stopClock({ clock }: TestService): void {
  clock.fixedAt = Date.now()
}

/** Syncs run only when the test calls `pushDue`. */
export async function startSyncWorld(
  provider: Provider,
  fake: Fake,
  settings: Record<string, string> = {},
  /** Without TLS. */
  plain = false,
): Promise<SyncWorld & { stop(): Promise<void> }> {
  const running = await startFake(fake, { plain })
  const replacements = { outbound: running.outbound, sleep: async () => undefined }
  const service = await startService({ COFFER_SYNC: 'off', ...settings }, replacements)
  stopClock(service)
  const owner = await registerOwner(service)
  const project = await createSecretProject(service, owner.session)
  return {
    service,
    owner,
    project,
    running,
    fake,
    provider,
    slug: provider.slug,
    stop: async () => {
      await service.stop()
      await running.close()
    },
  }
}

export function emptyTarget({ fake }: SyncWorld): void {
  for (const name of fake.state().keys()) fake.tamper(name, undefined)
}

const threeSecrets = { ALPHA: 'one', BETA: 'two', GAMMA: 'three' }

/** Leaves an empty target, only these secrets in development, and no sync. */
export async function resetSyncs(world: SyncWorld, secrets: Record<string, string> = threeSecrets): Promise<void> {
  const { project, running, fake } = world
  running.injectFailure = undefined
  fake.setTarget(true)
  fake.refusedNames.clear()
  emptyTarget(world)
  for (const { id } of await project.must<{ id: string }[]>('GET', '/sync')) await project.must('DELETE', `/sync/${id}`)
  for (const key of Object.keys(await project.state('development')))
    await project.must('DELETE', `/secret/${key}?purge=true`)
  await project.set('development', secrets)
  running.forget()
}

/** One service for all vendors: its outbound requests go to the vendor opened last. */
export async function startVendorService() {
  let current: Outbound | undefined
  const outbound: Outbound = {
    request(request) {
      if (!current) throw new Error('open a vendor first')
      return current.request(request)
    },
  }
  const service = await startService({ COFFER_SYNC: 'off' }, { outbound, sleep: async () => undefined })
  stopClock(service)
  const owner = await registerOwner(service)
  const project = await createSecretProject(service, owner.session)
  const routeTo = (
    fake: Fake,
    injectFailure: (request: FakeRequest) => InjectedFailure | undefined = () => undefined,
  ) => {
    current = outboundWithoutSockets(fake, injectFailure)
  }
  return {
    service,
    owner,
    project,
    /** Routes outbound requests to this fake from now on. */
    routeTo,
    open({ provider, slug, makeFake }: ProviderCase): SyncWorld {
      const fake = makeFake(() => service.app.services.now())
      routeTo(fake)
      return { service, owner, project, fake, provider, slug, running: undefined as never }
    },
  }
}
export type VendorService = Awaited<ReturnType<typeof startVendorService>>

export const flowPath = (slug: string, id: string, step: string) =>
  `/v1/sync/${slug}/flow?syncConfigId=${id}&step=${step}`

export async function readStep({ service, owner, slug }: SyncWorld, id: string, step: string): Promise<FlowStep> {
  const answer = await service.call<FlowStep>('GET', flowPath(slug, id, step), { token: owner.session })
  expect(answer.status, answer.text).toBe(200)
  return answer.body
}

export const submitStep = (
  { service, owner, slug }: SyncWorld,
  syncConfigId: string,
  step: string,
  values: Values,
  token = owner.session,
) =>
  service.call<FlowProgress & { message: string }>('POST', `/v1/sync/${slug}/flow`, {
    token,
    body: { syncConfigId, step, values },
  })

export async function startSetup({ service, owner, project, slug }: SyncWorld, name?: string): Promise<string> {
  const body = { projectId: project.id, ...(name !== undefined && { name }) }
  const answer = await service.call<StartedSync>('POST', `/v1/sync/${slug}/start`, { token: owner.session, body })
  expect(answer.status, answer.text).toBe(200)
  return answer.body.syncConfigId
}

/** Walks through the wizard like a person: reads each form and answers it from the fake's data. */
export async function setUpSync(
  world: SyncWorld,
  mapping: Values = {},
  environment = 'development',
  name?: string,
): Promise<string> {
  const id = await startSetup(world, name)
  await walk(world, id, 'auth', { ...mapping, environment: world.project.idOf(environment) })
  return id
}

export async function walk(world: SyncWorld, id: string, from: string, mapping: Values): Promise<string[]> {
  const { credential, target, options } = world.fake
  const known: Record<string, Values> = { auth: credential, target, mapping: { ...options, ...mapping }, review: {} }
  const steps = [from]
  for (let step = from; step !== 'done'; steps.push(step)) {
    if (steps.length > 12) throw new Error(`the wizard loops: ${steps.join(', ')}`)
    const { fields } = await readStep(world, id, step)
    const answer = await submitStep(world, id, step, answersTo(fields, known[step] ?? {}))
    expect(answer.status, answer.text).toBe(200)
    step = answer.body.step
  }
  return steps
}

function answersTo(fields: readonly FlowField[], known: Values): Record<string, string> {
  return Object.fromEntries(
    fields.flatMap((field) => {
      if (field.type !== 'input' && field.type !== 'select') return []
      const value = known[field.id] ?? field.data.defaultValue
      return value === undefined ? [] : [[field.id, value]]
    }),
  )
}

/** Moves the clock forward by `afterMs`, then runs due syncs until none is left. */
export async function pushDue({ service }: Pick<SyncWorld, 'service'>, afterMs = 0): Promise<number> {
  service.clock.offsetMs += afterMs
  const { services } = service.app
  let runs = 0
  for (let sync = await claimSync(services); sync; sync = await claimSync(services)) {
    await runSync(services, sync, new AbortController().signal)
    if (++runs > 200) throw new Error('the sync never stops being due')
  }
  return runs
}

export const readSync = ({ project }: SyncWorld, id: string): Promise<Sync> => project.must<Sync>('GET', `/sync/${id}`)

export async function lastRun({ project }: SyncWorld, id: string): Promise<SyncRunDetail> {
  const [run] = await project.must<SyncRun[]>('GET', `/sync/${id}/run?limit=1`)
  if (!run) throw new Error('the sync has no run')
  return project.must<SyncRunDetail>('GET', `/sync/${id}/run/${run.id}`)
}
