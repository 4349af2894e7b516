/** The projects of the test runner: the files that each of them has in a tier (tier.ts), and what these run on. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { filesLoadedBy } from './import-graph.ts'
import { deepOnly, fromSources, isByHand, notOnSqlite, perEngine, times } from './tier.ts'

const root = join(import.meta.dirname, '..')
/** Rooms are tested through HTTP on both engines; pure functions (all tests in crypto and domain) and the house need none. */
const rooms = ['server/src/{http,store,jobs,operator}/**/*.test.ts']
const postgresOnly = ['server/src/http/pgbouncer.test.ts', 'server/src/store/engine/postgres*.test.ts']
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

/** Below node_modules, where it finds the packages that are not in it. A run by hand starts the sources, with no build. */
const bundledServer: Record<string, string> = isByHand
  ? {}
  : { COFFER_TEST_SERVER: join(root, `node_modules/.coffer-test-${process.pid}/main.js`) }

const unit = (isFast: boolean) => ({
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
  // A keychain needs native code, which is installed beside a package: only the sources find it here.
  exclude: ['{bench,torture}/run.test.ts', 'cli/src/session/keychain.test.ts', ...(isFast ? deepOnly : [])],
  env: bundledServer,
  globalSetup: ['test/sqlite.ts', 'test/command-line.ts', 'test/server-program.ts'],
})

const sqlite = (isFast: boolean) => ({
  ...shared,
  name: 'sqlite',
  include: rooms,
  exclude: [...postgresOnly, ...(isFast ? [...deepOnly, ...notOnSqlite] : [])],
  env: { COFFER_TEST_ENGINE: 'sqlite', ...bundledServer },
  globalSetup: ['test/sqlite.ts', 'test/built-dashboard.ts', 'test/server-program.ts'],
})

const postgres = (isFast: boolean) => ({
  ...shared,
  name: 'postgres',
  include: isFast ? [...perEngine] : rooms,
  // The wire and the command line are the same in front of either.
  exclude: [
    'server/src/store/engine/sqlite*.test.ts',
    'server/src/http/wire*.test.ts',
    'server/src/operator/{command,backup-damage,doctor/full-disk}.test.ts',
    ...(isFast ? deepOnly : []),
  ],
  env: { COFFER_TEST_ENGINE: 'postgres', ...bundledServer },
  globalSetup: ['test/postgres.ts', 'test/built-dashboard.ts', 'test/server-program.ts'],
})

/** A test of a page takes a hundred steps in a browser, with several checks of its accessibility. */
const pagePatienceMs = 900_000

/** Pages in a real Chromium. They call the same API on either engine: the fast tier has them on SQLite alone. */
const dashboard = (isFast: boolean) => ({
  ...shared,
  testTimeout: pagePatienceMs,
  hookTimeout: pagePatienceMs,
  expect: { poll: { timeout: 180_000 } },
  name: 'dashboard',
  include: ['dashboard/**/*.test.ts'],
  exclude: isFast ? [...deepOnly] : [],
  env: { COFFER_TEST_ENGINE: 'sqlite' },
  globalSetup: ['test/sqlite.ts', 'test/built-dashboard.ts', 'test/command-line.ts'],
})

const dashboardOnPostgres = {
  ...dashboard(false),
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

/** The server and the command line as a checkout starts them; the projects above start what a package holds. */
const sources = {
  ...shared,
  name: 'sources',
  include: [...fromSources],
  env: { COFFER_TEST_ENGINE: 'sqlite' },
  globalSetup: ['test/sqlite.ts', 'test/built-dashboard.ts', 'test/command-line.ts'],
}

/** A short run each of the torture and the bench. */
const short = {
  ...shared,
  name: 'short',
  include: ['{bench,torture}/run.test.ts'],
  env: bundledServer,
  globalSetup: ['test/server-program.ts'],
}

type Project = {
  readonly name: string
  readonly include: string[]
  readonly exclude?: string[]
  readonly env?: Record<string, string>
  readonly globalSetup?: string[]
}

/** `npm test` */
export const fastProjects = (): Project[] => [unit(true), sqlite(true), postgres(true), dashboard(true)]

/** Every file, on every engine on which it can fail. */
export const allProjects = (): Project[] => [
  unit(false),
  sqlite(false),
  postgres(false),
  dashboard(false),
  dashboardOnPostgres,
  vendor,
  sources,
  short,
]

/** All but what `npm test` has run in the same project, in the same way. */
export function remainingProjects(): Project[] {
  const ran = new Map(fastProjects().map((project) => [project.name, filesOf(project)]))
  // With the counts of the deep tier, these run from the sources.
  const elsewhere = new Set(filesOf(sources))
  return allProjects().map((project) => {
    const repeated = (ran.get(project.name) ?? []).filter((file) => elsewhere.has(file) || !dependsOnTier(file))
    return { ...project, exclude: [...(project.exclude ?? []), ...repeated] }
  })
}

/** Paths from the root of the repository. */
export function filesOf({ include, exclude = [] }: Pick<Project, 'include' | 'exclude'>): string[] {
  return globSync(include, { cwd: root, exclude: ['**/node_modules/**', ...exclude] })
}

/** A count, or a judge of a fake. */
const tierMark = /COFFER_TEST_TIER/
const marked = new Map<string, boolean>()

function isMarked(file: string): boolean {
  const known = marked.get(file) ?? tierMark.test(readFileSync(file, 'utf8'))
  marked.set(file, known)
  return known
}

/** Whether the tiers may run it differently. */
const dependsOnTier = (file: string): boolean => filesLoadedBy(join(root, file)).some(isMarked)
