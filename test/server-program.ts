/**
 * The service that the tests start as a process. A tier bundles the sources once: the bundle starts with half of the
 * processor time, and the tests start it many times. Runs by hand and the project of the sources start those.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Plugin } from 'rolldown'
import type { TestProject } from 'vitest/node'
import { bundleServer } from '../server/build.ts'

/** The bundle says what a checkout says, and finds the files of the checkout. */
const ofCheckout: Plugin = {
  name: 'of-checkout',
  transform: (code, id) =>
    id.endsWith('/server/src/installation.ts')
      ? code.replaceAll('import.meta.dirname', JSON.stringify(dirname(id)))
      : undefined,
}

export async function setup({ config }: TestProject): Promise<() => void> {
  const program = config.env.COFFER_TEST_SERVER
  // Another project of the same run has made it.
  if (typeof program !== 'string' || existsSync(program)) return () => undefined
  dropLeftovers(dirname(dirname(program)))
  await bundleServer(dirname(program), ofCheckout)
  return () => rmSync(dirname(program), { recursive: true, force: true })
}

/** Removes the bundles of runs that were killed. */
export function dropLeftovers(folder: string): void {
  for (const name of readdirSync(folder)) {
    const [, pid] = /^\.coffer-test-(\d+)$/.exec(name) ?? []
    if (pid !== undefined && !isRunning(Number(pid))) rmSync(join(folder, name), { recursive: true, force: true })
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // A process of another user may not be signalled.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
