/** Settings and state of PostgreSQL that the start of the service does not refuse. */
import { isLoopback } from '../../config.ts'
import type { Services } from '../../domain/context.ts'
import { listLiveNodes } from '../../domain/upgrade/node.ts'
import { connectionsPerNode } from '../../store/engine/postgres-connections.ts'
import { anyOf, sql } from '../../store/engine/sql.ts'
import { type Check, type Finding, note, ok, wrong } from './finding.ts'

/** The oldest version that gets fixes. */
const leastVersion = 14
const staleTransaction = '1 minute'

export function postgresChecks(services: Services): Check[] {
  const { engine, config } = services
  if (engine.kind !== 'postgres') return []
  const check = (name: string, run: () => Promise<Finding>): Check => ({
    name: `PostgreSQL: ${name}`,
    why: 'PostgreSQL could not be asked.',
    fix: 'check that the user of COFFER_DATABASE_URL may read the system views.',
    run,
  })
  return [
    check('version', () => checkVersion(services)),
    check('role', () => checkRole(services)),
    check('connections', () => checkConnections(services)),
    check('time limits', () => checkLimits(services)),
    check('encryption', () => checkEncryption(services, config.databaseUrl ?? '')),
    check('open transactions', () => checkTransactions(services)),
    check('autovacuum', () => checkVacuum(services)),
  ]
}

async function settingsOf({ engine }: Services, ...names: string[]): Promise<Map<string, string>> {
  const rows = await engine.all<{ name: string; setting: string }>(
    sql`select name, setting from pg_settings where name ${anyOf(names)}`,
  )
  return new Map(rows.map(({ name, setting }) => [name, setting]))
}

async function checkVersion(services: Services): Promise<Finding> {
  const found = await settingsOf(services, 'server_version', 'server_version_num')
  const version = found.get('server_version') ?? 'unknown'
  if (Number(found.get('server_version_num')) >= leastVersion * 10_000) return ok(version)
  return note(
    `version ${version} is too old`,
    'It gets no fixes any more, not for lost data either.',
    `upgrade to PostgreSQL ${leastVersion} or later.`,
  )
}

async function checkRole({ engine }: Services): Promise<Finding> {
  const row = await engine.one<{ isStandby: boolean; lag: number | null }>(sql`
    select pg_is_in_recovery() as "isStandby",
      cast(extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp()) as bigint) as lag`)
  if (!row?.isStandby) return ok('primary')
  return wrong(
    `this is a standby, ${row.lag ?? 0} s behind its primary`,
    'It accepts no writes, so the service serves no values from it.',
    'point COFFER_DATABASE_URL at the primary, or promote this server.',
  )
}

/** Every node has a row; of nodes of 0.1.0, which have none, each address counts, and so do their connections. */
async function checkConnections(services: Services): Promise<Finding> {
  const found = await settingsOf(services, 'max_connections', 'superuser_reserved_connections')
  const [most = 0, reserved = 0] = ['max_connections', 'superuser_reserved_connections'].map((name) =>
    Number(found.get(name)),
  )
  const row = await services.engine.one<{ addresses: number; connections: number; own: number }>(sql`
    select count(distinct coalesce(host(client_addr), '')) as addresses, count(*) as connections,
      count(*) filter (where datname = current_database()) as own
    from pg_stat_activity where application_name = 'coffer' and pid <> pg_backend_pid()`)
  const { addresses = 1, connections = 1, own = 1 } = row ?? {}
  // A node that was killed leaves its row for a while, and no connection; others may use another database of the server.
  const live = Math.min((await listLiveNodes(services)).length, own)
  const nodes = Math.max(1, addresses, live, Math.ceil(connections / connectionsPerNode))
  const wanted = nodes * connectionsPerNode
  const what = `${most - reserved} for ${nodes} node(s), which take up to ${connectionsPerNode} each`
  if (most - reserved >= wanted) return ok(what)
  return wrong(
    what,
    'Under load, requests fail with 503.',
    `set max_connections to ${wanted + reserved} or more, or use PgBouncer.`,
  )
}

/** The service asks for both with each connection; some poolers drop what it asks. */
async function checkLimits(services: Services): Promise<Finding> {
  const names = ['statement_timeout', 'idle_in_transaction_session_timeout']
  const found = await settingsOf(services, ...names)
  const missing = names.filter((name) => Number(found.get(name) ?? 0) === 0)
  if (missing.length === 0) return ok('statements and idle transactions end by themselves')
  return note(
    `${missing.join(' and ')} not in effect`,
    'A node that hangs could hold locks for ever, and other nodes wait for them.',
    `set them for the user: ${missing.map((name) => `alter role … set ${name} = '${name === 'statement_timeout' ? 30 : 10}s'`).join('; ')}.`,
  )
}

async function checkEncryption({ engine }: Services, url: string): Promise<Finding> {
  const row = await engine.one<{ ssl: boolean }>(sql`select ssl from pg_stat_ssl where pid = pg_backend_pid()`)
  if (row?.ssl) return ok('the connection uses TLS')
  const host = URL.parse(url)?.hostname.replace(/^\[|\]$/g, '') ?? ''
  if (host === '' || isLoopback(host)) return ok('no TLS, on this machine only')
  return note(
    'the connection has no TLS',
    'Its password, names, addresses and audit entries cross the network in the clear; values are sealed.',
    'add ?sslmode=verify-full to COFFER_DATABASE_URL.',
  )
}

async function checkTransactions({ engine }: Services): Promise<Finding> {
  const row = await engine.one<{ count: number }>(sql`
    select count(*) as count from pg_stat_activity
    where datname = current_database() and state like 'idle in transaction%'
      and xact_start < now() - cast(${staleTransaction} as interval)`)
  if (!row?.count) return ok('none is idle')
  return note(
    `${row.count} idle for more than ${staleTransaction}`,
    'They keep removed rows on disk and may hold locks.',
    'find them with "select * from pg_stat_activity where state like \'idle in transaction%\'" and end their program.',
  )
}

async function checkVacuum(services: Services): Promise<Finding> {
  if ((await settingsOf(services, 'autovacuum')).get('autovacuum') !== 'off') return ok('on')
  return note('off', 'Tables grow without end and become slow.', "set PostgreSQL's autovacuum to on.")
}
