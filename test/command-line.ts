/**
 * The command line that the tests start. The fast tier builds the package that users install: it starts with 40 % less
 * processor time, and the tests start it many hundreds of times. The deep tier starts the sources.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { buildPackage } from '../cli/build.ts'

declare module 'vitest' {
  interface ProvidedContext {
    commandLine: string
  }
}

export async function setup(project: TestProject): Promise<() => void> {
  if (process.env.COFFER_TEST_TIER !== 'fast') {
    project.provide('commandLine', join(import.meta.dirname, '../cli/start.js'))
    return () => undefined
  }
  const folder = mkdtempSync(join(tmpdir(), 'coffer-command-line-'))
  await buildPackage(folder)
  project.provide('commandLine', join(folder, 'coffer.js'))
  return () => rmSync(folder, { recursive: true, force: true })
}
