/**
 * A log of intended and acknowledged writes, synced after every line. The expected content of the store comes from this
 * file, not from memory.
 */
import { readFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import type { State, Worker, WriteObserver } from '../../test/write-load.ts'

type Change = readonly [name: string, value: string | null]
type Line = { readonly worker: string; readonly changes?: readonly Change[]; readonly acknowledged?: string }
export type Account = { state: Map<string, string>; pending: Map<string, string> | undefined; acknowledged: string[] }

export type Ledger = WriteObserver & {
  write(line: Line): Promise<void>
  /** Accounts by worker, read from the file. */
  read(): Map<string, Account>
  close(): Promise<void>
}

export async function openLedger(path: string): Promise<Ledger> {
  const file = await open(path, 'a')
  let waiting: { text: string; done(): void; failed(error: unknown): void }[] = []
  let isWriting = false

  /** Group commit: lines that arrive during a sync share the next one. */
  async function drain(): Promise<void> {
    isWriting = true
    while (waiting.length > 0) {
      const lines = waiting
      waiting = []
      try {
        await file.write(lines.map(({ text }) => text).join(''))
        await file.datasync()
        for (const { done } of lines) done()
      } catch (error) {
        for (const { failed } of lines) failed(error)
      }
    }
    isWriting = false
  }

  function write(line: Line): Promise<void> {
    return new Promise((done, failed) => {
      waiting.push({ text: `${JSON.stringify(line)}\n`, done, failed })
      if (!isWriting) void drain()
    })
  }

  return {
    write,
    intends: (worker: Worker, after: State) =>
      write({ worker: worker.prefix, changes: difference(worker.state, after) }),
    acknowledged: (worker: Worker, requestId: string) => write({ worker: worker.prefix, acknowledged: requestId }),
    read: () => replay(readFileSync(path, 'utf8')),
    close: () => file.close(),
  }
}

function difference(before: State, after: State): Change[] {
  const changed = [...after].filter(([name, value]) => before.get(name) !== value)
  const gone = [...before.keys()].filter((name) => !after.has(name)).map((name): Change => [name, null])
  return [...changed, ...gone]
}

function replay(text: string): Map<string, Account> {
  const accounts = new Map<string, Account>()
  for (const line of text.split('\n').filter(Boolean)) {
    const { worker, changes, acknowledged }: Line = JSON.parse(line)
    const account = accounts.get(worker) ?? { state: new Map(), pending: undefined, acknowledged: [] }
    accounts.set(worker, account)
    if (changes) {
      account.pending = new Map(account.state)
      for (const [name, value] of changes) {
        if (value === null) account.pending.delete(name)
        else account.pending.set(name, value)
      }
    }
    if (acknowledged !== undefined && account.pending) {
      account.state = account.pending
      account.pending = undefined
      account.acknowledged.push(acknowledged)
    }
  }
  return accounts
}
