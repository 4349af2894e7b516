import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { deepOnly, perEngine, times } from './test/tier.ts'

/** Rooms are tested through HTTP on both engines; pure functions (all tests in crypto and domain) and the house need none. */
const rooms = ['server/src/{http,store,jobs,operator}/**/*.test.ts']
/** Ends what hangs; nothing is measured by it. */
const patienceMs = times(60_000, 240_000)
const shared = { setupFiles: ['test/loopback-only.ts'], testTimeout: patienceMs, hookTimeout: patienceMs }
/** `npm test`; without a tier, as with `npm run test:deep`, every project has all of its files. */
const isFast = process.env.COFFER_TEST_TIER === 'fast'

/** Files come by size, and this one is small but takes longest of all: at the end, one worker would be alone with it. */
class TortureFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => (moduleId.endsWith('/torture/run.test.ts') ? 0 : 1)
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other))
  }
}

const unit = {
  ...shared,
  name: 'unit',
  include: [
    'server/src/{*,master-key/*,slot/*}.test.ts',
    'server/src/{crypto,domain}/**/*.test.ts',
    'contract/**/*.test.ts',
    'sdk/**/*.test.ts',
    'cli/**/*.test.ts',
    'bench/*.test.ts',
    'test/*.test.ts',
    'torture/*.test.ts',
  ],
  exclude: ['{bench,torture}/run.test.ts', ...(isFast ? deepOnly : [])],
}

const sqlite = {
  ...shared,
  name: 'sqlite',
  include: rooms,
  exclude: isFast ? [...deepOnly] : [],
  env: { COFFER_TEST_ENGINE: 'sqlite' },
  globalSetup: ['test/sqlite.ts'],
}

const postgres = {
  ...shared,
  name: 'postgres',
  include: isFast ? [...perEngine] : rooms,
  // The wire and the command line are the same in front of either.
  exclude: [
    'server/src/store/engine/sqlite*.test.ts',
    'server/src/http/wire*.test.ts',
    'server/src/operator/command.test.ts',
    ...(isFast ? deepOnly : []),
  ],
  env: { COFFER_TEST_ENGINE: 'postgres' },
  globalSetup: ['test/postgres.ts'],
}

/** The vendors' own clients and descriptions judge the fakes: about 1 GB, which `npm run test:deep` installs. */
const vendor = {
  ...shared,
  name: 'vendor',
  include: ['test/vendor/*.test.ts'],
  env: { COFFER_TEST_TIER: 'deep' },
}

/** A short run each of the torture and the bench. */
const short = { ...shared, name: 'short', include: ['{bench,torture}/run.test.ts'] }

const projects = isFast ? [unit, sqlite, postgres] : [unit, sqlite, postgres, vendor, short]

export default defineConfig({
  test: { maxWorkers: 2, sequence: { sequencer: TortureFirst }, projects: projects.map((test) => ({ test })) },
})
