/**
 * A load for outages: each writer counts one secret up, and continues with the next number after a lost response. A
 * later read must be between the last acknowledged and the last attempted number.
 */
import { join } from 'node:path'
import type { Trial } from '../case.ts'
import { ask, isCutOff, must, pause } from './ask.ts'
import { type Ledger, openLedger } from './ledger.ts'
import { createProject, createToken } from './tenant.ts'

const slug = 'counted'
/** A request that takes longer hangs; on a busy machine, many seconds are no hang. */
const timeoutMs = 120_000
const root = `/v1/workspace/main/project/${slug}/secret`

export type Registers = {
  readonly environmentId: string
  readonly writer: string
  readonly reader: string
  readonly tried: number[]
  readonly ledger: Ledger
}
export type Load = {
  readonly acknowledged: number
  readonly reads: number
  /** Refused with an expected status, or cut off. */
  readonly refused: number
  readonly cutOff: number
  readonly unexpected: string[]
  stop(): Promise<void>
}
type LoadOptions = {
  readonly readers?: number
  readonly pauseMs?: number
  /** Error statuses that the case provokes. */
  readonly refusals?: readonly number[]
  /** Whether a broken connection to this address is expected at the moment; otherwise none is. */
  readonly mayBeCut?: (url: string) => boolean
  /** Whether a node of these addresses may refuse at the moment; otherwise any may. */
  readonly mayRefuse?: (url: string) => boolean
  /** How long other nodes may serve an older number. */
  readonly staleMs?: number
}

const keyOf = (writer: number) => `COUNT_${writer}`
const textFor = (number: number) => `number ${number}`
const numberIn = (text: string) => Number(/number (\d+)/.exec(text)?.[1] ?? Number.NaN)
const nameOf = (writer: number) => `writer ${writer}`

export async function createRegisters(trial: Trial, url: string, session: string, writers = 6): Promise<Registers> {
  const project = await createProject(url, session, slug)
  const environmentId = project.environments[0]?.id ?? ''
  const secrets = Array.from({ length: writers }, (_, at) => ({ key: keyOf(at), value: textFor(0) }))
  await must(url, 'POST', root, { token: session, body: { environments: [environmentId], secrets } })
  const ledger = await openLedger(join(trial.createFolder(), 'ledger'))
  trial.onEnd(() => ledger.close())
  return {
    environmentId,
    writer: await createToken(url, session, 'read-write'),
    reader: await createToken(url, session, 'read'),
    tried: secrets.map(() => 0),
    ledger,
  }
}

function acknowledgedOf({ ledger, tried }: Registers): number[] {
  const accounts = ledger.read()
  return tried.map((_, at) => numberIn(accounts.get(nameOf(at))?.state.get(keyOf(at)) ?? textFor(0)))
}

export function startLoad(url: () => string, registers: Registers, options: LoadOptions = {}): Load {
  const { environmentId, writer, reader, tried, ledger } = registers
  const {
    readers = 3,
    pauseMs = 0,
    refusals = [],
    mayBeCut = () => false,
    mayRefuse = () => true,
    staleMs = 0,
  } = options
  const known = acknowledgedOf(registers)
  const load = { acknowledged: 0, reads: 0, refused: 0, cutOff: 0, unexpected: [] as string[] }
  let isOver = false

  async function attempt(
    what: string,
    work: (url: string) => Promise<{ status: number; text: string }>,
  ): Promise<string | undefined> {
    const node = url()
    try {
      const { status, text } = await work(node)
      if (status < 300) return text
      if (refusals.includes(status) && mayRefuse(node)) load.refused++
      else load.unexpected.push(`${what}: ${status} ${text}`)
    } catch (error) {
      if (!isCutOff(error) || !mayBeCut(node)) load.unexpected.push(`${what}: ${String(error)}`)
      load.refused++
      load.cutOff++
    }
    await pause(20)
    return undefined
  }

  async function write(at: number): Promise<void> {
    while (!isOver && load.unexpected.length === 0) {
      const number = (tried[at] ?? 0) + 1
      const value = textFor(number)
      await ledger.write({ worker: nameOf(at), changes: [[keyOf(at), value]] })
      tried[at] = number
      const body = { environmentId, value }
      const path = `${root}/${keyOf(at)}/value`
      const text = await attempt(`PUT ${keyOf(at)}`, (node) =>
        ask(node, 'PUT', path, { token: writer, body, timeoutMs }),
      )
      if (text !== undefined) {
        await ledger.write({ worker: nameOf(at), acknowledged: value })
        if (staleMs === 0) known[at] = number
        else setTimeout(() => Object.assign(known, { [at]: number }), staleMs).unref()
        load.acknowledged++
      }
      await pause(pauseMs)
    }
  }

  /** A read after an acknowledgement must see the write. */
  async function read(offset: number): Promise<void> {
    for (let at = offset; !isOver && load.unexpected.length === 0; at++) {
      const register = at % tried.length
      const acknowledged = known[register] ?? 0
      const path = `${root}/${keyOf(register)}?environmentId=${environmentId}`
      const text = await attempt(`GET ${keyOf(register)}`, (node) =>
        ask(node, 'GET', path, { token: reader, timeoutMs }),
      )
      if (text !== undefined) {
        load.reads++
        const seen = numberIn(text)
        if (!(seen >= acknowledged && seen <= (tried[register] ?? 0))) {
          load.unexpected.push(
            `${keyOf(register)} shows ${seen} after ${acknowledged} was acknowledged and ${tried[register]} attempted`,
          )
        }
      }
      await pause(pauseMs)
    }
  }

  const done = Promise.all([
    ...tried.map((_, at) => write(at)),
    ...Array.from({ length: readers }, (_, offset) => read(offset)),
  ])
  // A case that fails closes the ledger before its load has ended.
  done.catch(() => undefined)
  return Object.assign(load, {
    stop: async () => {
      isOver = true
      await done
    },
  })
}

/** Compares the ledger with the store. */
export async function checkRegisters(url: string, registers: Registers): Promise<string[]> {
  const problems: string[] = []
  for (const [at, acknowledged] of acknowledgedOf(registers).entries()) {
    const path = `${root}/${keyOf(at)}?environmentId=${registers.environmentId}`
    const { status, text } = await ask(url, 'GET', path, { token: registers.reader })
    const seen = numberIn(text)
    const most = registers.tried[at] ?? 0
    if (status !== 200 || !(seen >= acknowledged && seen <= most)) {
      problems.push(`${keyOf(at)}: acknowledged ${acknowledged}, attempted ${most}, found ${status} ${text}`)
    }
  }
  return problems
}
