/** Answers that mean something else than their status says. */
import { afterEach, expect, test, vi } from 'vitest'
import { lastRun, pushDue, readSync, setUpSync, startSyncWorld } from '../../../../../test/sync.ts'
import { fakeGitHub } from '../../../../../test/vendor/fake/github-actions.ts'
import { fakeKubernetes } from '../../../../../test/vendor/fake/kubernetes.ts'
import { githubActions } from '../../../providers/github-actions.ts'
import { kubernetes } from '../../../providers/kubernetes.ts'

let stop: () => Promise<void>
afterEach(async () => {
  vi.restoreAllMocks()
  await stop()
})

/** A proxy that answers in place of the cluster. */
const page = { kind: 'answer', answer: { status: 200, body: {} } } as const

async function startKubernetes(mapping: Record<string, string> = {}) {
  const world = await startSyncWorld(kubernetes, fakeKubernetes())
  stop = world.stop
  await world.project.set('development', { ALPHA: 'first-value-of-alpha', BETA: 'first-value-of-beta' })
  const id = await setUpSync(world, mapping)
  const state = () => Object.fromEntries(world.fake.state())
  return { world, running: world.running, project: world.project, id, state }
}

test('Kubernetes: a 200 without a Secret is no empty Secret, so a deleted key is still deleted later', async () => {
  const { world, running, project, id, state } = await startKubernetes()
  await pushDue(world)
  await project.remove('development', 'BETA')
  running.injectFailure = () => page
  await pushDue(world, 15_000)
  expect((await readSync(world, id)).state).toBe('failing')
  running.injectFailure = undefined
  await project.must('POST', `/sync/${id}/run`)
  await pushDue(world)
  expect(state()).toEqual({ ALPHA: 'first-value-of-alpha' })
})

test('Kubernetes: a write that is answered without a Secret does not count as done', async () => {
  const { world, running, project, id, state } = await startKubernetes()
  running.injectFailure = ({ method }) => (method === 'PATCH' ? page : undefined)
  await pushDue(world)
  expect((await readSync(world, id)).state).toBe('failing')
  running.injectFailure = undefined
  await project.must('POST', `/sync/${id}/run`)
  await pushDue(world)
  expect(state()).toEqual({ ALPHA: 'first-value-of-alpha', BETA: 'first-value-of-beta' })
})

test('an entry that holds all secrets is hidden in messages, even if it is quoted encoded and in part', async () => {
  const { world, running, id } = await startKubernetes({ mode: 'json', objectName: 'all.json' })
  running.injectFailure = ({ method, text }) => {
    if (method !== 'PATCH') return undefined
    const message = `cannot store ${/"all\.json":"([^"]{60})/.exec(text)?.[1]}`
    return { kind: 'answer', answer: { status: 422, body: { message } } }
  }
  await pushDue(world)
  expect(await lastRun(world, id)).toMatchObject({
    error: expect.stringMatching(/cannot store \[hidden\]\./),
    items: [{ message: expect.stringMatching(/cannot store \[hidden\]\./) }],
  })
})

async function startGitHub() {
  const world = await startSyncWorld(githubActions, fakeGitHub())
  stop = world.stop
  await world.project.set('development', { ALPHA: 'one', BETA: 'two' })
  return { world, running: world.running, id: await setUpSync(world) }
}

test('GitHub: a secondary limit without headers is waited for, and does not blame the credential', async () => {
  const { world, running, id } = await startGitHub()
  const message = 'You have exceeded a secondary rate limit. Please wait a few minutes before you try again.'
  running.injectFailure = ({ method }) =>
    method === 'PUT' ? { kind: 'answer', answer: { status: 403, body: { message } } } : undefined
  await pushDue(world)
  expect((await readSync(world, id)).state).toBe('failing')
})

test('a run whose time is up goes on at once if it got somewhere; otherwise the sync fails and waits', async () => {
  const { world, running, id } = await startGitHub()
  /** The time of the next run is up when it makes this request, which gets no answer. */
  const endAt = (isIt: (request: { method: string; path: string }) => boolean) => {
    const time = new AbortController()
    vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(time.signal)
    running.injectFailure = (request) => {
      if (time.signal.aborted || !isIt(request)) return undefined
      time.abort()
      return { kind: 'stall' }
    }
  }
  endAt(() => true)
  expect(await pushDue(world)).toBe(1)
  expect(await readSync(world, id)).toMatchObject({
    state: 'failing',
    lastError: expect.stringMatching(/^GitHub Actions: The run took more than 15 minutes and changed nothing/),
  })

  await world.project.must('POST', `/sync/${id}/run`)
  endAt(({ method, path }) => method === 'PUT' && path.endsWith('/BETA'))
  expect(await pushDue(world)).toBe(2)
  expect(await readSync(world, id)).toMatchObject({ state: 'active', lastError: null })
  expect(Object.fromEntries(world.fake.state())).toEqual({ ALPHA: 'one', BETA: 'two' })
})
