import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Rooms are tested through HTTP on both engines; pure functions (all tests in crypto and domain) and the house need none. */
const rooms = ['server/src/{http,store,jobs,operator}/**/*.test.ts']
const shared = { setupFiles: ['test/loopback-only.ts'], testTimeout: 60_000, hookTimeout: 60_000 }

/** Files come by size, and this one is small but takes longest of all: at the end, one worker would be alone with it. */
class TortureFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => (moduleId.endsWith('/torture/torture.test.ts') ? 0 : 1)
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other))
  }
}

export default defineConfig({
  test: {
    maxWorkers: 2,
    sequence: { sequencer: TortureFirst },
    projects: [
      {
        test: {
          ...shared,
          name: 'unit',
          include: [
            'server/src/*.test.ts',
            'server/src/{crypto,domain}/**/*.test.ts',
            'contract/**/*.test.ts',
            'sdk/**/*.test.ts',
            'test/*.test.ts',
            'torture/**/*.test.ts',
          ],
        },
      },
      { test: { ...shared, name: 'vendor', include: ['test/vendor/*.test.ts'] } },
      {
        test: {
          ...shared,
          name: 'sqlite',
          include: rooms,
          env: { COFFER_TEST_ENGINE: 'sqlite' },
          globalSetup: ['test/sqlite.ts'],
        },
      },
      {
        test: {
          ...shared,
          name: 'postgres',
          include: rooms,
          // The wire is the same in front of either.
          exclude: ['server/src/store/engine/sqlite*.test.ts', 'server/src/http/wire.test.ts'],
          env: { COFFER_TEST_ENGINE: 'postgres' },
          globalSetup: ['test/postgres.ts'],
        },
      },
    ],
  },
})
