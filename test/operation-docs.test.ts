/** docs/operation.md leads from nothing to three nodes: every command on the page is run, in its order, in one shell. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { buildPackage } from '../server/build.ts'
import { settings } from '../server/src/setting.ts'
import { setup as buildPages } from './built-dashboard.ts'
import { requirePrograms } from './debian-package.ts'
import { blocksOf, openShell } from './page-block.ts'
import { freePort, startPostgres } from './postgres.ts'
import { connectPostgres } from './postgres-client.ts'

const blocks = blocksOf('docs/operation.md')
const inLanguage = (language: string) => blocks.filter((block) => block.language === language)

/** Beginnings of blocks that are not run here, with the reason. */
const notRun: Readonly<Record<string, string>> = {
  'npm install && npm run build\n': 'replaces the modules that run this test; the same package is built below instead',
}
const reasonFor = (code: string) => Object.keys(notRun).find((start) => code.startsWith(start))

test('every block names its language, and every block that is not run is still on the page', () => {
  const languages = new Set(blocks.map(({ language }) => language))
  expect([...languages].sort()).toEqual(['ini', 'sh', 'yaml'])
  for (const start of Object.keys(notRun)) {
    expect(inLanguage('sh').filter(({ code }) => code.startsWith(start))).toHaveLength(1)
  }
})

test('examples of settings name only settings that exist', () => {
  const names = inLanguage('ini').flatMap(({ code }) => [...code.matchAll(/^(\w+)=/gm)].map(([, name]) => name))
  expect(names.length).toBeGreaterThan(0)
  const known = new Set(settings.map(({ name }) => name))
  expect(names.filter((name = '') => !known.has(name))).toEqual([])
})

test('the commands lead to three nodes with TLS behind a proxy, with backups and monitoring', {
  timeout: 1_800_000,
}, async ({ onTestFinished }) => {
  await requirePrograms('curl', 'nginx', 'openssl', 'psql')
  const home = await mkdtemp(join(tmpdir(), 'coffer-operation-'))
  onTestFinished(() => rm(home, { recursive: true, force: true }))
  await buildPages()
  await buildPackage(join(home, 'built'))
  await copyFile(join(import.meta.dirname, '../deploy/proxy/nginx.conf'), join(home, 'coffer-nginx.conf'))
  await promisify(execFile)('npm', ['pack', join(home, 'built'), '--silent'], { cwd: home })
  const postgres = await startPostgres()
  onTestFinished(() => postgres.stop())
  await freeRole(postgres.url)
  const [prefix, proxyPort] = [await freePrefix(), await freePort()]
  const shell = openShell(home, {
    HOME: home,
    PATH: `${dirname(process.execPath)}:/usr/sbin:${process.env.PATH}`,
    TMPDIR: home,
    ...{ PGHOST: '127.0.0.1', PGPORT: String(postgres.port), PGUSER: 'operator', PGPASSWORD: 'operator' },
    npm_config_cache: process.env.npm_config_cache ?? join(process.env.HOME ?? '', '.npm'),
    npm_config_prefer_offline: 'true',
    npm_config_update_notifier: 'false',
  })
  onTestFinished(() => shell.end())
  const here = (code: string) =>
    code
      .replaceAll('localhost:5432', `127.0.0.1:${postgres.port}`)
      .replaceAll(/\b808(?=[123$])/g, String(prefix))
      .replaceAll(/\b8443\b/g, String(proxyPort))

  const printed: Record<string, string> = {}
  for (const { section, code } of inLanguage('sh')) {
    if (reasonFor(code) !== undefined) continue
    printed[section] = (printed[section] ?? '') + (await shell.run(here(code)))
  }

  const ready = /\{"status":"ready"\}/g
  expect(printed['4. Start the first node with TLS']?.match(ready)).toHaveLength(1)
  expect(printed['7. Add the second and the third node']?.match(ready)).toHaveLength(2)
  expect(printed['8. Make backups, and prove that they restore']).toContain('.backup.verified')
  expect(printed['8. Make backups, and prove that they restore']).toContain('  ok     ')
  expect(printed['10. Upgrade']?.match(ready)).toHaveLength(4)

  const login = `curl --cacert tls.crt -sSf https://localhost:8443/v1/auth/login -H 'content-type: application/json' \\
    -d '{"email":"you@example.com","password":"at least 12 characters"}'`
  expect(await shell.run(here(login))).toContain('"accessToken"')
  const [, rules] = inLanguage('yaml').map(({ code }) => parse(code))
  const expressions: string[] = rules.groups.flatMap((group: { rules: { expr: string }[] }) =>
    group.rules.map(({ expr }) => expr),
  )
  const metrics = readFileSync(join(home, 'coffer/metrics.txt'), 'utf8')
  const watched = new Set(expressions.flatMap((expression) => expression.match(/\bcoffer_\w+/g) ?? []))
  expect(watched.size).toBeGreaterThan(4)
  for (const name of watched) expect(metrics).toMatch(new RegExp(`^${name}[ {]`, 'm'))
})

/** The server of the tests has a superuser with the name that the page gives to a new role. */
async function freeRole(url: string): Promise<void> {
  const first = await connectPostgres(url)
  await first.query(`create role operator superuser login password 'operator'`)
  await first.end()
  const second = await connectPostgres(url.replace('coffer:coffer@', 'operator:operator@'))
  await second.query('alter role coffer rename to first_role')
  await second.end()
}

/** Ports that end with 1, 2 and 3 are free behind it. */
async function freePrefix(): Promise<number> {
  const prefix = Math.floor((await freePort()) / 10)
  for (const last of [1, 2, 3]) {
    const server = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(prefix * 10 + last, '127.0.0.1', () => resolve(true))
    })
    if (!isFree) return freePrefix()
    await new Promise((resolve) => server.close(resolve))
  }
  return prefix
}
