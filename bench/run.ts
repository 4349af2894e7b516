/**
 * `npm run bench`: how fast the service is, as ratios to a bare node:http server on the same Node that sends the same
 * bytes, measured in turns within one run. Absolute figures depend on the machine; the ratios much less.
 *
 * Options: --seconds N (per measurement, 3), --rounds N (3), --json FILE
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { findGenerator, type Load, type Result } from './load.ts'
import { type Running, startBare, startService } from './process.ts'

const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '3' },
    json: { type: 'string' },
  },
})
const seconds = Number(options.seconds)
const rounds = Number(options.rounds)
const connections = 64

type Case = { readonly name: string; readonly load: Omit<Load, 'seconds' | 'connections'>; readonly results: Result[] }
type Answer = { accessToken: string; token: string; id: string }
type Row = { name: string; perSecond: number; ratio: number; p50Ms: number; p99Ms: number; errors: number }

const generator = findGenerator()
console.log(
  `Load by ${generator.name}, ${connections} connections, ${rounds} rounds of ${seconds} s each, Node ${process.version}, ${cpus().length} cores.`,
)

const dataDir = mkdtempSync(join(tmpdir(), 'coffer-bench-'))
const running: Running[] = []
try {
  const first = await startService(dataDir)
  const credentials = await seed(first)
  await first.stop()
  const service = await startService(dataDir)
  running.push(service)
  const idleMb = service.residentMb()
  const path = '/v1/workspace/main/project'
  const body = await (
    await fetch(service.url + path, { headers: { authorization: `Bearer ${credentials.token}` } })
  ).text()
  const bare = await startBare(body)
  running.push(bare)

  const cases: Case[] = [
    { name: 'bare node:http', load: { url: bare.url + path }, results: [] },
    { name: 'list projects, API token', load: { url: service.url + path, token: credentials.token }, results: [] },
    { name: 'list projects, JWT', load: { url: service.url + path, token: credentials.jwt }, results: [] },
    { name: 'who am I, API token', load: { url: `${service.url}/v1/me`, token: credentials.token }, results: [] },
  ]
  for (const { load } of cases) await generator.run({ ...load, seconds: 1, connections })
  for (let round = 1; round <= rounds; round++) {
    for (const { name, load, results } of cases) {
      process.stdout.write(`\rround ${round} of ${rounds}: ${name.padEnd(30)}`)
      results.push(await generator.run({ ...load, seconds, connections }))
    }
  }
  process.stdout.write(`\r${''.padEnd(60)}\r`)
  report(cases, { startMs: service.startMs, idleMb, busyMb: service.residentMb(), bodyBytes: body.length })
} finally {
  for (const child of running) await child.stop()
  rmSync(dataDir, { recursive: true, force: true })
}

async function seed(service: Running): Promise<{ token: string; jwt: string }> {
  const call = async (method: string, path: string, credential?: string, body?: unknown) => {
    const response = await fetch(service.url + path, {
      method,
      headers: {
        ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    // Each caller knows what it asked for.
    return (await response.json()) as Answer
  }
  const account = { email: 'bench@example.com', name: 'Bench', password: 'a long enough password' }
  const { accessToken: session } = await call('POST', '/v1/auth/register', undefined, account)
  const team = await call('POST', '/v1/workspace/main/team', session, { name: 'Bench' })
  for (const slug of ['api', 'web', 'worker']) {
    await call('POST', '/v1/workspace/main/project', session, { name: slug, slug, teamId: team.id })
  }
  const wanted = { name: 'bench', permission: 'read', scope: { all: true }, expiresIn: '24h' }
  const { token } = await call('POST', '/v1/workspace/main/tokens', session, wanted)
  const { accessToken: jwt } = await call('POST', '/v1/auth/exchange', token)
  return { token, jwt }
}

function report(cases: Case[], process: { startMs: number; idleMb: number; busyMb: number; bodyBytes: number }): void {
  const reference = median(cases[0]?.results.map((result) => result.perSecond) ?? [])
  const rows: Row[] = cases.map(({ name, results }) => {
    const perSecond = median(results.map((result) => result.perSecond))
    return {
      name,
      perSecond: Math.round(perSecond),
      ratio: Number((perSecond / reference).toFixed(2)),
      p50Ms: median(results.map((result) => result.p50Ms)),
      p99Ms: median(results.map((result) => result.p99Ms)),
      errors: results.reduce((sum, result) => sum + result.errors, 0),
    }
  })
  console.log(['', 'requests/s', 'of bare', 'p50 ms', 'p99 ms', 'errors'].map(column).join(''))
  for (const row of rows) {
    const cells = [
      row.name,
      row.perSecond,
      row.ratio.toFixed(2),
      row.p50Ms.toFixed(2),
      row.p99Ms.toFixed(2),
      row.errors,
    ]
    console.log(cells.map(column).join(''))
  }
  console.log(
    `Second start: ${Math.round(process.startMs)} ms to ready. Resident: ${Math.round(process.idleMb)} MB idle, ` +
      `${Math.round(process.busyMb)} MB after the load. Answer: ${process.bodyBytes} bytes.`,
  )
  if (options.json)
    writeFileSync(options.json, `${JSON.stringify({ at: new Date().toISOString(), rows, ...process }, null, 2)}\n`)
}

function column(cell: string | number, index: number): string {
  return index === 0 ? String(cell).padEnd(28) : String(cell).padStart(12)
}

function median(numbers: number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN
}
