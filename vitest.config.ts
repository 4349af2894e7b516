import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { allProjects, fastProjects, remainingProjects } from './test/project.ts'

const isFast = process.env.COFFER_TEST_TIER === 'fast'

/** Projects run one after the other, in the order of their names unless this says otherwise. */
function rankOf({ moduleId, project }: TestSpecification): number {
  // Small but takes longest of all: at the end, one worker would be alone with it.
  if (moduleId.endsWith('/torture/run.test.ts')) return 0
  // The browser of the dashboard may still be downloaded at the start.
  return isFast && project.name === 'postgres' ? 1 : 2
}

class FileOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toSorted((one, other) => rankOf(one) - rankOf(other))
  }
}

/** Vitest started by hand finds every file. */
function chooseProjects() {
  if (isFast) return fastProjects()
  return process.env.COFFER_TEST_AFTER_FAST === 'yes' ? remainingProjects() : allProjects()
}

export default defineConfig({
  // More than the usual two cores: a third of a worker's time is spent waiting for other processes and timers.
  test: { maxWorkers: 3, sequence: { sequencer: FileOrder }, projects: chooseProjects().map((test) => ({ test })) },
})
