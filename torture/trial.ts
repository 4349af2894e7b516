/** Runs one case on one engine, with its folders, databases and time limit, and cleans up at the end. */
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createDice } from '../test/dice.ts'
import { type Postgres, startPostgres } from '../test/postgres.ts'
import { connectPostgres } from '../test/postgres-client.ts'
import type { Case, Counts, EngineKind, Trial } from './case.ts'

export const fullMinutes = 15
/** A case that runs this long after its time limit hangs. */
const graceMs = 90_000

export type Plan = {
  readonly one: Case
  readonly engine: EngineKind
  readonly seed: number
  /** Fraction of a full run. */
  readonly amount: number
  readonly timeMs: number
  /** A checkout of the version before. */
  readonly previous: string | undefined
  progress(text: string): void
}
export type Result = {
  readonly name: string
  readonly engine: EngineKind
  readonly seed: number
  readonly counts: Counts
  readonly findings: string[]
  readonly skipped?: string
  readonly seconds: number
}

/** One PostgreSQL is shared by all cases that do not disturb it. */
let shared: Promise<Postgres> | undefined

export async function stopSharedPostgres(): Promise<void> {
  await (await shared)?.stop()
}

export async function runTrial(plan: Plan): Promise<Result> {
  const { one, engine, seed } = plan
  const startedAt = performance.now()
  const findings: string[] = []
  const cleanups: (() => unknown)[] = []
  const seconds = () => Math.round((performance.now() - startedAt) / 1_000)
  const skipped = one.unable?.(engine)
  if (skipped !== undefined) return { name: one.name, engine, seed, counts: {}, findings, skipped, seconds: seconds() }
  let counts: Counts = {}
  try {
    counts = await within(one.run(createTrial(plan, findings, cleanups)), plan.timeMs + graceMs)
  } catch (error) {
    findings.push(`the case failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
  }
  for (const end of cleanups.reverse()) {
    try {
      await within(Promise.resolve(end()), 120_000)
    } catch (error) {
      findings.push(`the cleanup failed: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  return { name: one.name, engine, seed, counts, findings, seconds: seconds() }
}

function createTrial(
  { one, engine, seed, amount, timeMs, previous, progress }: Plan,
  findings: string[],
  cleanups: (() => unknown)[],
): Trial {
  const endsAt = performance.now() + timeMs
  const createFolder = () => {
    const folder = mkdtempSync(join(tmpdir(), 'coffer-torture-'))
    cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
    return folder
  }
  return {
    engine,
    previous,
    // Each case has its own random sequence, so that it can be repeated alone.
    dice: createDice(createHash('sha256').update(`${seed} ${one.name} ${engine}`).digest().readInt32BE()),
    scale: (full) => Math.max(1, Math.ceil(full * amount)),
    isOver: () => performance.now() >= endsAt,
    progress,
    report: (finding) => {
      if (findings.length < 20) findings.push(finding)
    },
    createFolder,
    createDatabase: async () => {
      const dataDir = createFolder()
      const settings = { COFFER_DATA_DIR: dataDir, COFFER_EXCHANGE_RATE_LIMIT: '0' }
      if (engine === 'sqlite') return { settings, dataDir }
      shared ??= startPostgres()
      const server = (await shared).url
      const { url, drop } = await createPostgresDatabase(server)
      cleanups.push(drop)
      return { settings: { ...settings, COFFER_DATABASE_URL: url, COFFER_DRAIN_SECONDS: '0' }, dataDir }
    },
    onEnd: (work) => void cleanups.push(work),
  }
}

let databases = 0

async function createPostgresDatabase(server: string): Promise<{ url: string; drop(): Promise<void> }> {
  const name = `torture_${++databases}`
  const url = new URL(server)
  url.pathname = `/${name}`
  await runOnPostgres(server, `create database ${name}`)
  return { url: url.href, drop: () => runOnPostgres(server, `drop database if exists ${name} with (force)`) }
}

export async function runOnPostgres(url: string, text: string): Promise<void> {
  const client = await connectPostgres(url)
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}

async function within<Value>(work: Promise<Value>, ms: number): Promise<Value> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error(`the case hangs: no result within ${Math.round(ms / 1_000)} seconds`)),
      ms,
    )
  })
  return Promise.race([work, deadline]).finally(() => clearTimeout(timer))
}
