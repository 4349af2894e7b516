/**
 * The service that the tests start as a process. The fast tier bundles the sources once: it starts with a third of the
 * processor time, and the tests start it many times. The deep tier starts the sources.
 */
import { existsSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
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
  await bundleServer(dirname(program), ofCheckout)
  return () => rmSync(dirname(program), { recursive: true, force: true })
}
