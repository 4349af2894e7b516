/** Bit flips in the database files at rest: every response is correct or an error, never wrong data. */
import { closeSync, cpSync, mkdirSync, openSync, readdirSync, readSync, rmSync, statSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { type Dice, pick } from '../../test/dice.ts'
import { type Postgres, startPostgres } from '../../test/postgres.ts'
import type { Listening, Settings } from '../../test/program.ts'
import { runProgram, startListening } from '../../test/start-server.ts'
import { bothEngines, type Case, type Trial } from '../case.ts'
import { createTruth, examine, type Truth } from './flip-truth.ts'

/** Most of a file is empty or never read: several flips at once hit something more often. */
const bitsAtOnce = { sqlite: 8, postgres: 2 } as const

export const flip: Case = {
  name: 'flip',
  about: 'bit flips in the database files at rest: an error or the correct response',
  engines: bothEngines,
  seconds: 40,
  async run(trial) {
    const store = trial.engine === 'sqlite' ? await prepareSqlite(trial) : await preparePostgres(trial)
    const counts = { 'bits flipped': 0, 'starts refused': 0, 'correct responses': 0, errors: 0, 'names lost': 0 }
    const due = trial.scale(trial.engine === 'sqlite' ? 70 : 15)
    for (let round = 0; round < due && !trial.isOver(); round++) {
      const flips = Array.from({ length: bitsAtOnce[trial.engine] }, () => chooseBit(store.files(), trial.dice))
      const where = flips
        .map(({ file, at, bit }) => `bit ${bit} of byte ${at} in ${file.split('/').slice(-2).join('/')}`)
        .join(', ')
      const settings = await store.damage(flips)
      counts['bits flipped'] += flips.length
      const service = await startOrRefuse(trial, settings, where)
      if (service) {
        const found = await examine(service.url, store.truth)
        counts['correct responses'] += found.right
        counts.errors += found.errors
        counts['names lost'] += found.lost
        for (const what of found.wrong) trial.report(`${where}: ${what}`)
        await service.destroy()
        if (found.lost > 0) await expectDetected(trial, settings, `${where}: ${found.lost} names were lost`)
      } else counts['starts refused']++
      await store.repair(flips)
      trial.progress(`${round + 1} of ${due} rounds`)
    }
    return counts
  },
}

type Bit = { readonly file: string; readonly at: number; readonly bit: number }
type Store = {
  readonly truth: Truth
  files(): string[]
  /** Flips the bits and returns the settings to start with. */
  damage(bits: readonly Bit[]): Promise<Settings>
  repair(bits: readonly Bit[]): Promise<void>
}

async function startOrRefuse(trial: Trial, settings: Settings, where: string): Promise<Listening | undefined> {
  try {
    return await startListening(settings)
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    if (!message.startsWith('the service exited at startup')) trial.report(`${where}: ${message}`)
    return undefined
  }
}

/** PostgreSQL checksums its pages, so nothing may be lost there. SQLite may lose rows, but `doctor` must report it. */
async function expectDetected(trial: Trial, settings: Settings, what: string): Promise<void> {
  if (trial.engine === 'postgres') trial.report(what)
  else if ((await runProgram(['doctor'], settings)).code === 0) trial.report(`${what}, and doctor reports nothing`)
}

function chooseBit(files: readonly string[], dice: Dice): Bit {
  const file = pick(files, dice)
  return { file, at: dice(statSync(file).size), bit: dice(8) }
}

function flipBit({ file, at, bit }: Bit): void {
  const handle = openSync(file, 'r+')
  const byte = Buffer.alloc(1)
  readSync(handle, byte, 0, 1, at)
  byte.writeUInt8(byte.readUInt8(0) ^ (1 << bit), 0)
  writeSync(handle, byte, 0, 1, at)
  closeSync(handle)
}

async function seed(settings: Settings): Promise<Truth> {
  const service = await startListening(settings)
  const truth = await createTruth(service.url)
  await service.stop()
  return truth
}

/** Damages a fresh copy of the database file each time. */
async function prepareSqlite(trial: Trial): Promise<Store> {
  const { settings, dataDir } = await trial.createDatabase()
  const truth = await seed(settings)
  const copy = join(trial.createFolder(), 'copy')
  return {
    truth,
    files: () => [join(dataDir, 'coffer.db')],
    damage: async (bits) => {
      rmSync(copy, { recursive: true, force: true })
      mkdirSync(copy)
      cpSync(dataDir, copy, { recursive: true })
      for (const bit of bits) flipBit({ ...bit, file: join(copy, 'coffer.db') })
      return { ...settings, COFFER_DATA_DIR: copy }
    },
    repair: async () => undefined,
  }
}

/** Damages the files while the server is stopped, and flips the bits back afterwards. */
async function preparePostgres(trial: Trial): Promise<Store> {
  const postgres: Postgres = await startPostgres()
  trial.onEnd(() => postgres.stop())
  const settings = { COFFER_DATA_DIR: trial.createFolder(), COFFER_DATABASE_URL: postgres.url }
  const truth = await seed(settings)
  await postgres.pause()
  const base = join(postgres.dataDir, 'base')
  // The template databases are older and have lower numbers.
  const own =
    readdirSync(base)
      .filter((name) => /^\d+$/.test(name))
      .sort((a, b) => Number(a) - Number(b))
      .at(-1) ?? ''
  const isTable = (name: string) => /^\d+$/.test(name) && Number(name) >= 16_384
  return {
    truth,
    files: () => {
      const names = readdirSync(join(base, own)).filter(isTable)
      return names.map((name) => join(base, own, name)).filter((file) => statSync(file).size > 0)
    },
    damage: async (bits) => {
      for (const bit of bits) flipBit(bit)
      await postgres.start()
      return settings
    },
    repair: async (bits) => {
      await postgres.pause()
      for (const bit of bits) flipBit(bit)
    },
  }
}
