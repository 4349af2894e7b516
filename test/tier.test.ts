import { globSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { allProjects, fastProjects, filesOf, remainingProjects } from './project.ts'
import { deepOnly, fromSources, notOnSqlite, perEngine } from './tier.ts'

const root = join(import.meta.dirname, '..')

test.each([...perEngine, ...deepOnly, ...fromSources, ...notOnSqlite])(
  '%s, which one tier runs differently, names files that are there',
  (pattern) => {
    expect(globSync(pattern, { cwd: root })).not.toEqual([])
  },
)

describe('what "npm test" and then "npm run test:deep" run', () => {
  const runsOf = (projects: ReturnType<typeof allProjects>) =>
    new Set(projects.flatMap((project) => filesOf(project).map((file) => `${project.name}: ${file}`)))
  const [fast, all, remaining] = [runsOf(fastProjects()), runsOf(allProjects()), runsOf(remainingProjects())]

  test('is every test file, on every engine on which it can fail', () => {
    expect([...fast.union(remaining)].toSorted()).toEqual([...all].toSorted())
    const files = new Set([...all].map((run) => run.replace(/^.*: /, '')))
    const written = globSync('**/*.test.ts', { cwd: root, exclude: ['**/node_modules', '**/dist'] })
    expect([...files].toSorted()).toEqual(written.toSorted())
  })

  test('leaves no file out of the fast tier that is not in the deep tier alone', () => {
    const inFast = new Set([...fast].map((run) => run.replace(/^.*: /, '')))
    const onlyDeep = new Set(deepOnly.flatMap((pattern) => globSync(pattern, { cwd: root })))
    const rooms = [...all]
      .filter((run) => /^(unit|sqlite|dashboard): /.test(run))
      .map((run) => run.replace(/^.*: /, ''))
    expect(rooms.filter((file) => !inFast.has(file) && !onlyDeep.has(file))).toEqual([])
  })

  test('differs where a file runs twice', () => {
    const twice = [...fast.intersection(remaining)].map((run) => run.replace(/^.*: /, ''))
    // A count of the tier, a count in a file that they load, and a judge of a fake.
    expect(twice).toEqual(
      expect.arrayContaining([
        'server/src/crypto/envelope.test.ts',
        'server/src/http/matrix.test.ts',
        'server/src/http/routes/sync/wizard.test.ts',
      ]),
    )
  })

  test('is the same, and runs once, where nothing that a file loads knows the tier', () => {
    const once = [...all.difference(remaining)]
    expect(once).toContain('sqlite: server/src/http/routes/secret/write.test.ts')
    // It waits for conditions.
    expect(once).toContain('sqlite: server/src/http/routes/health.test.ts')
    // They start the server and the command line.
    expect(once).toEqual(
      expect.arrayContaining(['sqlite: server/src/operator/tls.test.ts', 'unit: cli/src/commands/import.test.ts']),
    )
    expect(remaining).toContain('postgres: server/src/http/routes/secret/write.test.ts')
  })

  test('starts the programs as packages hold them, and from the sources', () => {
    for (const file of ['server/src/operator/process.test.ts', 'cli/src/main.test.ts']) {
      const runs = [...all].filter((run) => run.endsWith(`: ${file}`))
      expect(runs).toContain(`sources: ${file}`)
      expect([...fast].some((run) => runs.includes(run))).toBe(true)
      expect(remaining).toContain(`sources: ${file}`)
    }
  })
})
