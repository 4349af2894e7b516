/** A service whose master key is split: it listens, and waits for the shares. */
import type { Server } from 'node:http'
import type { Config } from './config.ts'
import { sealedMetrics } from './http/metrics.ts'
import { createSealedServer } from './http/sealed.ts'
import { installation } from './installation.ts'
import { listenOn, serveMetrics } from './listen.ts'
import { type Log, traceOf } from './log.ts'
import { MasterKeyError } from './master-key/error.ts'
import type { ShareSet } from './master-key/share.ts'
import { collectShares } from './master-key/share-collector.ts'
import { listenForShares, type UnsealAnswer } from './master-key/unseal-socket.ts'
import { type OpenStore, prepareStore, requireShareSets, unlockStore } from './open-store.ts'
import { StartError } from './start-error.ts'
import { openTls } from './tls/tls.ts'

type Unsealed = {
  readonly store: OpenStore
  /** Listens already; the service takes its place without a gap. */
  readonly server: Server
}

/** Undefined if a signal stops the process first. */
export async function waitForShares(config: Config, log: Log, now: () => number): Promise<Unsealed | undefined> {
  const tls = config.tls && (await openTls(config.tls, log, now))
  const engine = await prepareStore(config, log, now)
  const stops: (() => Promise<unknown>)[] = []
  try {
    const sets = await requireShareSets(engine)
    const [set] = sets
    const unlocked = Promise.withResolvers<OpenStore>()
    const lock = {
      readSets: () => requireShareSets(engine),
      unlock: (key: Uint8Array) => unlockStore(engine, key, now),
    }
    const socket = await listenForShares(config.dataDir, shareKeeper(sets, log, lock, unlocked.resolve))
    stops.push(socket.close)
    stops.push(await serveMetrics(sealedMetrics, config, tls))
    const server = createSealedServer(config, log, tls)
    await listenOn(server, config.host, 'COFFER_PORT', config.port)
    const address = server.address()
    const port = typeof address === 'object' && address ? address.port : config.port
    log.warn(
      `sealed: ${set.threshold} of ${set.count} shares of set ${set.set} are needed; run "${installation.command} keys unseal" on this machine`,
    )
    log.info('listening', { host: config.host, port, engine: engine.kind, ms: Math.round(performance.now()) })
    const signal = nextSignal()
    const store = await Promise.race([unlocked.promise, signal.promise])
    signal.forget()
    if (typeof store !== 'string') {
      log.info('unsealed')
      return { store, server }
    }
    log.info(`stopping on ${store}`)
    await new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
    await engine.close()
    log.info('stopped')
    return undefined
  } catch (error) {
    await engine.close().catch(() => undefined)
    throw error
  } finally {
    for (const stop of stops) await stop().catch(() => undefined)
    tls?.stop()
  }
}

function nextSignal() {
  const { promise, resolve } = Promise.withResolvers<string>()
  const names = ['SIGTERM', 'SIGINT'] as const
  for (const name of names) process.on(name, resolve)
  const forget = () => {
    for (const name of names) process.off(name, resolve)
  }
  return { promise, forget }
}

type Lock = {
  readSets(): Promise<readonly ShareSet[]>
  unlock(key: Uint8Array): Promise<OpenStore>
}

const namesOf = (sets: readonly ShareSet[]) => sets.map(({ set }) => set).join()

/** Answers each share. Shares are tried one after the other, so that two operators do not combine twice. */
function shareKeeper(
  first: readonly ShareSet[],
  log: Log,
  { readSets, unlock }: Lock,
  onUnlocked: (store: OpenStore) => void,
): (line: Buffer) => Promise<UnsealAnswer> {
  let sets = first
  let shares = collectShares(sets)
  let last: Promise<unknown> = Promise.resolve()
  let isUnsealed = false

  /** Another node may have moved the master key since. A store that does not answer changes nothing here. */
  async function followSets(): Promise<void> {
    const found = await readSets().catch((error: unknown) => {
      if (error instanceof StartError) throw error
      return sets
    })
    if (namesOf(found) === namesOf(sets)) return
    sets = found
    shares = collectShares(sets)
  }

  async function take(line: Buffer): Promise<UnsealAnswer> {
    if (isUnsealed) return { isAccepted: true, isUnsealed, message: 'The service is unsealed.' }
    await followSets()
    const isAccepted = true
    const progress = () => `${shares.given} of ${shares.set?.threshold} shares of set ${shares.set?.set} are there.`
    if (line.length === 0) return { isAccepted, isUnsealed, message: progress() }
    const key = await shares.add(line)
    if (!key) return { isAccepted, isUnsealed, message: progress() }
    const store = await unlock(key)
    isUnsealed = true
    // After the answer has left: the socket closes with the sealed state.
    setImmediate(() => onUnlocked(store))
    return { isAccepted, isUnsealed, message: 'The service is unsealed.' }
  }

  return (line) => {
    const answer = last
      .catch(() => undefined)
      .then(() => take(line))
      .catch((error: unknown): UnsealAnswer => {
        const isOurs = error instanceof MasterKeyError || error instanceof StartError
        if (!isOurs) log.error('the shares gave a key, but the store did not open', traceOf(error))
        const message = isOurs
          ? error.message
          : 'The store did not open: see the log of the service. All shares were dropped.'
        return { isAccepted: false, isUnsealed, message }
      })
    last = answer
    return answer
  }
}
