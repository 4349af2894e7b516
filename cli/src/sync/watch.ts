/** Repeats a read of the service, and waits for the end of a run. */
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError, ConnectionError, type SyncRunDetail } from '@coffer/sdk'
import { describeDuration } from '../duration.ts'
import { CliError } from '../error.ts'
import type { Output } from '../output/output.ts'
import type { Project } from '../secret/project.ts'

const pollMs = 2_000

/** Calls `show` first, and again after each change, until the process is ended. A short outage does not end it. */
export async function watch<Answer>(
  out: Output,
  read: () => Promise<Answer>,
  show: (answer: Answer) => Promise<void> | void,
): Promise<never> {
  let shown = await read()
  let isDown = false
  await show(shown)
  for (;;) {
    await sleep(pollMs)
    try {
      const next = await read()
      if (isDown) out.warn('The service answers again.')
      isDown = false
      if (JSON.stringify(next) === JSON.stringify(shown)) continue
      shown = next
    } catch (error) {
      if (!isOutage(error)) throw error
      if (!isDown) out.warn(`${error.message} Still trying.`)
      isDown = true
      continue
    }
    await show(shown)
  }
}

const isOutage = (error: unknown): error is Error =>
  error instanceof ConnectionError || (error instanceof ApiError && error.status >= 502 && error.status <= 504)

/** The id of the newest run, from before the one that is waited for. */
export async function newestRunId(project: Project, id: string): Promise<string | undefined> {
  const [newest] = await project.api.sync.listRuns({ ...project.path, id }, { limit: 1 })
  return newest?.id
}

const maxMissedRuns = 20

/** The first manual run after `before` that went to its end. An interrupted one is started again by the service. */
export async function waitForRun(
  project: Project,
  id: string,
  before: string | undefined,
  limitMs: number,
): Promise<SyncRunDetail> {
  const endAt = performance.now() + limitMs
  for (let delayMs = 250; ; delayMs = Math.min(pollMs, delayMs * 2)) {
    const runs = await project.api.sync.listRuns({ ...project.path, id }, { limit: maxMissedRuns })
    const known = runs.findIndex((run) => run.id === before)
    const fresh = known < 0 ? runs : runs.slice(0, known)
    const run = fresh.findLast(({ trigger, state }) => trigger === 'manual' && state !== 'interrupted')
    if (run) return project.api.sync.readRun({ ...project.path, id, runId: run.id })
    if (performance.now() > endAt) {
      const message = `The run has not ended within ${describeDuration(limitMs)}. It goes on without this command.`
      throw new CliError('failure', message, 'coffer sync status NAME --watch')
    }
    const { state } = await project.api.sync.read({ ...project.path, id })
    if (state === 'paused' || state === 'removing') {
      throw new CliError('conflict', `Somebody has changed the sync meanwhile: it is ${state}.`)
    }
    await sleep(delayMs)
  }
}
