/** The findings of `doctor` about settings, files, the running service and PostgreSQL, as a list of objects. */
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeCertificate } from '../../../../test/certificate.ts'
import { diagnose as diagnoseOn, findingsOf } from '../../../../test/doctor.ts'
import { createDatabase, type Database, engine, openService, registerOwner } from '../../../../test/harness.ts'
import { freePort } from '../../../../test/postgres.ts'
import { connectPostgres } from '../../../../test/postgres-client.ts'
import { serve } from '../../../../test/process.ts'
import { tamper } from '../../../../test/store.ts'
import { writeCertificate } from '../../../../test/tls-service.ts'
import { sql } from '../../store/engine/sql.ts'

const dayMs = 86_400_000
let database: Database
beforeAll(async () => {
  database = await createDatabase({ hasSchema: true })
  const service = await openService(database.settings, database.dataDir)
  await registerOwner(service)
  await service.stop()
})
afterAll(() => database.drop())

const diagnose = (settings: Record<string, string> = {}) => diagnoseOn(database, settings)
const only = (check: string, settings: Record<string, string> = {}) => findingsOf(database, check, settings)

describe('addresses', () => {
  const everywhere = { COFFER_HOST: '0.0.0.0', COFFER_PUBLIC_URL: 'https://coffer.example.com' }

  test('plain http that the start refuses is wrong, plain http that was asked for is a note', async () => {
    expect(await only('encryption', everywhere)).toMatchObject([{ level: 'wrong' }])
    const asked = await only('encryption', { ...everywhere, COFFER_PLAIN_HTTP: 'on' })
    expect(asked).toEqual([{ level: 'note', what: 'plain http on 0.0.0.0, as COFFER_PLAIN_HTTP asks' }])
    expect(await only('encryption', { ...everywhere, COFFER_TRUSTED_PROXIES: '10.0.0.1' })).toMatchObject([
      { level: 'ok' },
    ])
  })

  test.each([
    ['http://coffer.example.com', 'note', 'http://coffer.example.com is plain http'],
    ['http://localhost:8080', 'note', 'http://localhost:8080 is this machine, but the service listens on 0.0.0.0'],
    ['https://coffer.example.com', 'ok', 'https://coffer.example.com'],
  ])('the public URL %s is %s', async (url, level, what) => {
    const settings = { ...everywhere, COFFER_PLAIN_HTTP: 'on', COFFER_PUBLIC_URL: url }
    expect(await only('public URL', settings)).toEqual([{ level, what }])
  })

  test.each([
    [40, 'ok'],
    [20, 'note'],
    [5, 'wrong'],
  ])('a certificate that ends in %d days is %s', async (days, level) => {
    const files = await writeCertificate(makeCertificate({ to: Date.now() + (days + 0.5) * dayMs }))
    const settings = { ...files.settings, COFFER_PUBLIC_URL: 'https://coffer.test' }
    const expected = expect.stringMatching(new RegExp(`^valid until \\S+Z, ${days} days from now$`))
    expect(await only('certificate', settings)).toEqual([{ level, what: expected }])
    await files.remove()
  })

  test('a certificate for another name, and a public URL that TLS does not serve, are wrong', async () => {
    const files = await writeCertificate(makeCertificate())
    const other = { ...files.settings, COFFER_PUBLIC_URL: 'https://coffer.example.com' }
    expect(await only('certificate', other)).toMatchObject([
      { level: 'ok' },
      { level: 'wrong', what: 'the certificate is not for coffer.example.com, the host of COFFER_PUBLIC_URL' },
    ])
    const plain = { ...files.settings, COFFER_PUBLIC_URL: 'http://coffer.test' }
    expect(await only('public URL', plain)).toEqual([{ level: 'wrong', what: 'http://coffer.test is plain http' }])
    await chmod(files.settings.COFFER_TLS_KEY_FILE, 0o644)
    expect(await only('certificate', other)).toMatchObject([
      { level: 'wrong', what: expect.stringMatching(/chmod 600/) },
    ])
    await files.remove()
  })
})

describe('the running service', () => {
  test('a proxy that is not trusted is found, and only programs on the machine are told', async () => {
    const port = String(await freePort())
    const settings = { COFFER_PORT: port }
    expect(await only('service', settings)).toEqual([{ level: 'ok', what: `does not run at 127.0.0.1 port ${port}` }])
    const service = await serve({ ...database.settings, ...settings })
    try {
      expect(await only('service', settings)).toEqual([{ level: 'ok', what: `ready at 127.0.0.1 port ${port}` }])
      for (const client of ['192.0.2.1', '192.0.2.2']) {
        await service.call('GET', '/healthz', { headers: { 'x-forwarded-for': client } })
      }
      const headers = { 'x-forwarded-for': '192.0.2.3' }
      const through = await service.call('GET', '/readyz?verbose', { headers })
      expect(through.body).toMatchObject({ status: 'ready' })
      expect(through.body).not.toHaveProperty('untrustedForwarded')
      const direct = await service.call('GET', '/readyz?verbose')
      expect(direct.body).toMatchObject({ status: 'ready', untrustedForwarded: 3 })
      expect((await service.call('GET', '/readyz')).body).toEqual({ status: 'ready' })
      expect(await only('service', settings)).toEqual([
        { level: 'ok', what: `ready at 127.0.0.1 port ${port}` },
        { level: 'note', what: '3 requests came with X-Forwarded-For from an address that is not trusted' },
      ])
      const warnings = service.messages().filter((message) => message.startsWith('X-Forwarded-For was sent by'))
      expect(warnings).toHaveLength(1)
    } finally {
      await service.stop()
    }
  })

  test('a service with TLS is asked by its name', async () => {
    const files = await writeCertificate(makeCertificate())
    const port = String(await freePort())
    const settings = { ...files.settings, COFFER_PORT: port, COFFER_PUBLIC_URL: `https://coffer.test:${port}` }
    const service = await serve({ ...database.settings, ...settings })
    expect(await only('service', settings)).toEqual([{ level: 'ok', what: `ready at 127.0.0.1 port ${port}` }])
    // It runs, whatever this machine thinks of its certificate.
    const renamed = { ...settings, COFFER_PUBLIC_URL: 'https://coffer.example.com' }
    const other = await writeCertificate(makeCertificate())
    for (const changed of [renamed, { ...settings, ...other.settings }]) {
      const what = expect.stringMatching(/^a service runs at \S+ port \d+, but its certificate is refused: /)
      expect(await only('service', changed)).toEqual([{ level: 'note', what }])
    }
    await service.stop()
    await other.remove()
    await files.remove()
  })
})

if (engine === 'sqlite') {
  test('files that others can open are found', async () => {
    expect(await only('permissions')).toMatchObject([{ level: 'ok' }])
    const file = join(database.dataDir, 'coffer.db')
    const settingsFile = join(database.dataDir, 'coffer.env')
    await writeFile(settingsFile, 'COFFER_SIGNUP=invite\n', { mode: 0o644 })
    await chmod(settingsFile, 0o644)
    await chmod(file, 0o644)
    await chmod(database.dataDir, 0o755)
    try {
      expect(await only('permissions', { COFFER_CONFIG: settingsFile })).toEqual([
        { level: 'wrong', what: 'other users can open coffer.db' },
        { level: 'note', what: `other users can open the folder ${database.dataDir}` },
        { level: 'note', what: `every user can read ${settingsFile}` },
      ])
    } finally {
      await chmod(database.dataDir, 0o700)
      await chmod(file, 0o600)
    }
  })

  test('a volume that Kubernetes has opened to the group of the pod is left to it', async () => {
    try {
      await chmod(database.dataDir, 0o2770)
      expect(await only('permissions')).toMatchObject([{ level: 'ok' }])
      await chmod(database.dataDir, 0o770)
      expect(await only('permissions')).toMatchObject([{ level: 'note' }])
    } finally {
      await chmod(database.dataDir, 0o700)
    }
  })
}

test('an audit archive that stands still is a note', async () => {
  const settings = { COFFER_AUDIT_DAYS: '30' }
  expect(await only('audit archive', settings)).toEqual([{ level: 'ok', what: 'not behind' }])
  expect(await only('audit archive')).toEqual([])
  await tamper(database.settings, (db) => db.count(sql`update audit_entry set at = ${Date.now() - 40 * dayMs}`))
  expect(await only('audit archive', settings)).toMatchObject([{ level: 'note' }])
})

if (engine === 'postgres') {
  test('of the disks of this machine, only that of backups counts', async () => {
    const what = expect.stringMatching(/GiB free in /)
    expect(await only('disk')).toEqual([{ level: expect.stringMatching(/^(ok|note)$/), what }])
  })

  test('PostgreSQL is asked for its version, role, connections, limits, transactions and clock', async () => {
    const found = await diagnose()
    const checks = found.filter(({ check }) => check.includes('PostgreSQL'))
    expect(checks.map(({ check, level }) => `${level} ${check}`)).toEqual([
      'ok clock of PostgreSQL',
      'ok PostgreSQL: version',
      'ok PostgreSQL: role',
      'ok PostgreSQL: connections',
      'ok PostgreSQL: time limits',
      'ok PostgreSQL: encryption',
      'ok PostgreSQL: open transactions',
      'ok PostgreSQL: autovacuum',
    ])
  })

  test('settings of PostgreSQL that cost data, time or availability are found', async () => {
    const odd = await createDatabase({ hasSchema: true })
    const service = await openService(odd.settings, odd.dataDir)
    await service.stop()
    // Views of ours stand before those of the server.
    const statements = [
      'create schema odd',
      `create view odd.pg_settings as select name, case name
         when 'server_version_num' then '120004' when 'server_version' then '12.4' when 'max_connections' then '15'
         when 'statement_timeout' then '0' when 'autovacuum' then 'off' else setting end as setting
       from pg_catalog.pg_settings`,
      `create view odd.pg_stat_activity as select pid, datname, client_addr, application_name,
         'idle in transaction' as state, now() - interval '1 hour' as xact_start from pg_catalog.pg_stat_activity
       where pid = pg_backend_pid()`,
      `create function odd.pg_is_in_recovery() returns boolean language sql as 'select true'`,
      `do $$ begin execute format('alter database %I set search_path = odd, pg_catalog, public', current_database()); end $$`,
    ]
    const client = await connectPostgres(odd.settings.COFFER_DATABASE_URL ?? '')
    for (const statement of statements) await client.query(statement)
    await client.end()
    const found = (await diagnoseOn(odd)).filter(({ check }) => check.startsWith('PostgreSQL: '))
    expect(found.map(({ check, level, what }) => `${level} ${check.slice('PostgreSQL: '.length)}: ${what}`)).toEqual([
      'note version: version 12.4 is too old',
      expect.stringMatching(/^wrong role: this is a standby, \d+ s behind its primary$/),
      'wrong connections: 12 for 1 node(s), which take up to 20 each',
      'note time limits: statement_timeout not in effect',
      'ok encryption: no TLS, on this machine only',
      'note open transactions: 1 idle for more than 1 minute',
      'note autovacuum: off',
    ])
    await odd.drop()
  })
}
