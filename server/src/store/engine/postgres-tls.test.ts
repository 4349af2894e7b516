/** PostgreSQL over TLS, as most hosted ones require it. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeCertificate } from '../../../../test/certificate.ts'
import { createProject, openService, registerOwner } from '../../../../test/harness.ts'
import { type Postgres, startPostgres } from '../../../../test/postgres.ts'
import { connectPostgres } from '../../../../test/postgres-client.ts'
import { until } from '../../../../test/wait.ts'

let server: Postgres
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'coffer-test-'))
  server = await startPostgres()
  const { certificate, key } = makeCertificate()
  await writeFile(join(folder, 'ca.pem'), certificate)
  const admin = await connectPostgres(server.url)
  // The server writes its files itself, since it may run as another user.
  const write = (name: string, text: string) =>
    admin.query(`copy (select regexp_split_to_table('${text.trim()}', '\\n')) to '${join(server.dataDir, name)}'`)
  await write('server.crt', certificate)
  await write('server.key', key)
  await chmod(join(server.dataDir, 'server.key'), 0o600)
  await admin.query('alter system set ssl = on')
  await admin.query('select pg_reload_conf()')
  const isOn = async () => (await admin.query('show ssl')).rows[0]?.ssl === 'on' || undefined
  await until(isOn, 60_000, 'PostgreSQL offers TLS')
  await admin.end()
})
afterAll(async () => {
  await server.stop()
  await rm(folder, { recursive: true, force: true })
})

const open = (parameters: string) =>
  openService({ COFFER_DATA_DIR: folder, COFFER_DATABASE_URL: `${server.url}?${parameters}` }, folder)

test('a node writes and reads over TLS alone', async () => {
  const node = await open(`sslmode=verify-full&sslrootcert=${join(folder, 'ca.pem')}`)
  const admin = await connectPostgres(server.url)
  try {
    const { session } = await registerOwner(node)
    const { environments } = await createProject(node, session, 'api')
    const environmentId = environments[0]?.id
    const keys = Array.from({ length: 40 }, (_, index) => `KEY_${index}`)
    const path = '/v1/workspace/main/project/api/secret'
    const create = (key: string) =>
      node.call('POST', path, {
        token: session,
        body: { environments: [environmentId], secrets: [{ key, value: key }] },
      })
    const created = await Promise.all(keys.map(create))
    expect(created.map(({ status }) => status)).toEqual(keys.map(() => 201))
    const read = await node.call('GET', `${path}/KEY_39?environmentId=${environmentId}`, { token: session })
    expect(read.body).toMatchObject({ values: [{ value: 'KEY_39' }] })
    const { rows } = await admin.query(
      `select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'coffer'`,
    )
    expect(rows).toEqual([{ ssl: true }])
  } finally {
    await admin.end()
    await node.stop()
  }
})

test('a node does not start if nobody it knows has signed the certificate', async () => {
  await expect(open('sslmode=verify-full')).rejects.toThrow('its certificate is not trusted')
})
