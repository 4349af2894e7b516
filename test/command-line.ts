/**
 * The command line that the tests start: the package that users install. It starts with 40 % less processor time than the
 * sources, and the tests start it many hundreds of times. Runs by hand and the project of the sources start those.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { buildPackage } from '../cli/build.ts'
import { isByHand } from './tier.ts'

declare module 'vitest' {
  interface ProvidedContext {
    commandLine: string
  }
}

export async function setup(project: TestProject): Promise<() => void> {
  if (isByHand || project.name === 'sources') {
    project.provide('commandLine', join(import.meta.dirname, '../cli/start.js'))
    return () => undefined
  }
  const folder = mkdtempSync(join(tmpdir(), 'coffer-command-line-'))
  await buildPackage(folder)
  project.provide('commandLine', join(folder, 'coffer.js'))
  return () => rmSync(folder, { recursive: true, force: true })
}
