import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { deepOnly, perEngine, times } from './test/tier.ts'

/** Rooms are tested through HTTP on both engines; pure functions (all tests in crypto and domain) and the house need none. */
const rooms = ['server/src/{http,store,jobs,operator}/**/*.test.ts']
/** Ends what hangs; nothing is measured by it. */
const patienceMs = times(300_000, 600_000)
const shared = {
  setupFiles: ['test/loopback-only.ts'],
  testTimeout: patienceMs,
  hookTimeout: patienceMs,
  expect: { poll: { timeout: patienceMs / 2 } },
  // A process runs many files and loads the server once, which takes longer than most files' tests.
  isolate: false,
}
/** `npm test`; without a tier, as with `npm run test:deep`, every project has all of its files. */
const isFast = process.env.COFFER_TEST_TIER === 'fast'

/** Below node_modules, where it finds the packages that are not in it. */
const bundledServer = isFast
  ? { COFFER_TEST_SERVER: join(import.meta.dirname, `node_modules/.coffer-test-${process.pid}/main.js`) }
  : {}

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

const unit = {
  ...shared,
  name: 'unit',
  include: [
    'server/src/{*,master-key/*,slot/*,tls/*}.test.ts',
    'server/src/{crypto,domain}/**/*.test.ts',
    'contract/**/*.test.ts',
    'sdk/**/*.test.ts',
    'cli/**/*.test.ts',
    'bench/*.test.ts',
    'test/*.test.ts',
    'torture/*.test.ts',
  ],
  exclude: ['{bench,torture}/run.test.ts', ...(isFast ? deepOnly : [])],
  env: bundledServer,
  globalSetup: ['test/sqlite.ts', 'test/command-line.ts', 'test/server-program.ts'],
}

const sqlite = {
  ...shared,
  name: 'sqlite',
  include: rooms,
  exclude: [
    'server/src/http/pgbouncer.test.ts',
    // The fast tier kills rotations on PostgreSQL, where other nodes take part.
    ...(isFast ? [...deepOnly, 'server/src/operator/rotation.test.ts'] : []),
  ],
  env: { COFFER_TEST_ENGINE: 'sqlite', ...bundledServer },
  globalSetup: ['test/sqlite.ts', 'test/built-dashboard.ts', 'test/server-program.ts'],
}

const postgres = {
  ...shared,
  name: 'postgres',
  include: isFast ? [...perEngine] : rooms,
  // The wire and the command line are the same in front of either.
  exclude: [
    'server/src/store/engine/sqlite*.test.ts',
    'server/src/http/wire*.test.ts',
    'server/src/operator/{command,backup-damage}.test.ts',
    ...(isFast ? deepOnly : []),
  ],
  env: { COFFER_TEST_ENGINE: 'postgres', ...bundledServer },
  globalSetup: ['test/postgres.ts', 'test/built-dashboard.ts', 'test/server-program.ts'],
}

/** A test of a page takes a hundred steps in a browser, with several checks of its accessibility. */
const pagePatienceMs = 900_000

/** Pages in a real Chromium. They call the same API on either engine: the fast tier has them on SQLite alone. */
const dashboard = {
  ...shared,
  testTimeout: pagePatienceMs,
  hookTimeout: pagePatienceMs,
  expect: { poll: { timeout: 180_000 } },
  name: 'dashboard',
  include: ['dashboard/**/*.test.ts'],
  exclude: isFast ? [...deepOnly] : [],
  env: { COFFER_TEST_ENGINE: 'sqlite' },
  globalSetup: ['test/sqlite.ts', 'test/built-dashboard.ts', 'test/command-line.ts'],
}

const dashboardOnPostgres = {
  ...dashboard,
  name: 'dashboard-postgres',
  // Files, builds, pure functions and the forms of providers are the same on either.
  exclude: ['dashboard/*.test.ts', 'dashboard/src/{parts,pages/grid/edit}/**', '**/every-provider.test.ts'],
  env: { COFFER_TEST_ENGINE: 'postgres' },
  globalSetup: ['test/postgres.ts', 'test/built-dashboard.ts', 'test/command-line.ts'],
}

/** The vendors' own clients and descriptions judge the fakes: about 1 GB, which `npm run test:deep` installs. */
const vendor = {
  ...shared,
  // Some of their clients write into the objects that they are given, which other files use too.
  isolate: true,
  name: 'vendor',
  include: ['test/vendor/*.test.ts'],
  env: { COFFER_TEST_TIER: 'deep' },
}

/** A short run each of the torture and the bench. */
const short = { ...shared, name: 'short', include: ['{bench,torture}/run.test.ts'] }

const projects = isFast
  ? [unit, sqlite, postgres, dashboard]
  : [unit, sqlite, postgres, dashboard, dashboardOnPostgres, vendor, short]

export default defineConfig({
  // More than the usual two cores: a third of a worker's time is spent waiting for other processes and timers.
  test: { maxWorkers: 3, sequence: { sequencer: FileOrder }, projects: projects.map((test) => ({ test })) },
})
