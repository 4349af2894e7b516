/** `doctor`: checks an installation, and says what is wrong and how to fix it. */
import { access, constants, statfs } from 'node:fs/promises'
import { openServices } from '../app.ts'
import { type Config, readConfig } from '../config.ts'
import { systemChain } from '../domain/audit/event.ts'
import { verifyChain } from '../domain/audit/verify.ts'
import type { Services } from '../domain/context.ts'
import { codeOf } from '../error-code.ts'
import { createLog } from '../log.ts'
import { explainFileError, fileError } from '../open-store.ts'
import { countTampered } from '../store/integrity.ts'
import { steps } from '../store/migrate.ts'

type Print = (text: string) => number
type Check = { readonly name: string; readonly run: () => Promise<string> }

const minFreeBytes = 1024 ** 3
const maxClockDriftMs = 30_000
const progressEveryMs = 10_000
const maxNamed = 50

/** Returns the exit code: 0 if all is well, 1 otherwise. */
export async function runDoctor(env: Record<string, string | undefined>, print: Print): Promise<number> {
  let config: Config
  try {
    config = readConfig(env)
  } catch (error) {
    print(`  wrong  settings: ${sentence(error)}\n`)
    return 1
  }
  print('  ok     settings: all are valid\n')
  const store = await checkStore(config, print)
  // Checked even if the store does not open: a full disk may be the reason.
  const disk = await runCheck(config, { name: 'disk', run: () => checkDisk(config) }, print)
  return Math.max(store, disk)
}

async function checkStore(config: Config, print: Print): Promise<number> {
  let services: Services
  try {
    services = await explainFileError(config, () => openServices(config, createLog('silent'), 'read'))
  } catch (error) {
    print(`  wrong  store and keys: ${sentence(error)}\n`)
    return 1
  }
  try {
    let worst = 0
    for (const check of checksOf(services, print)) worst = Math.max(worst, await runCheck(config, check, print))
    return worst
  } finally {
    await services.engine.close()
  }
}

async function runCheck(config: Config, check: Check, print: Print): Promise<number> {
  try {
    print(`  ok     ${check.name}: ${await explainFileError(config, check.run)}\n`)
    return 0
  } catch (error) {
    print(`  wrong  ${check.name}: ${sentence(error)}\n`)
    return 1
  }
}

function checksOf(services: Services, print: Print): Check[] {
  const { engine, keys, store } = services
  return [
    {
      name: 'store',
      run: async () => {
        await engine.checkDurability()
        return `${engine.kind}, commits survive a power failure, schema at step ${await engine.migratedSteps()} of ${steps.length}`
      },
    },
    { name: 'database files', run: () => engine.checkFiles() },
    { name: 'keys', run: async () => `the master key opens all ${keys.keyring.all.length} root key(s)` },
    {
      name: 'rows that grant rights',
      run: async () => {
        const tampered = await countTampered(engine, keys)
        if (tampered.length === 0) return 'all valid'
        throw new Error(
          `changed outside of Coffer: ${tampered.join(', ')}. They grant nothing; restore them from a backup or remove them.`,
        )
      },
    },
    {
      name: 'audit trail of the system',
      run: async () => {
        const verdict = await verifyChain(services, systemChain)
        if (verdict.ok && verdict.entries === 0 && (await store.accounts.count()) > 0) {
          throw new Error('there are accounts but no entries: the trail was erased. Compare with a backup.')
        }
        if (verdict.ok) return `${verdict.entries} entries, chain and signature are valid`
        throw new Error(`broken at entry ${verdict.firstBroken}: ${verdict.reason} Compare with a backup.`)
      },
    },
    { name: 'audit trails of workspaces', run: () => checkTrails(services, print) },
    { name: 'workspaces with private addresses', run: () => checkOutboundWorkspaces(services) },
    {
      name: 'clock',
      run: async () => {
        const newest = await store.changes.newestAt()
        const aheadMs = newest - Date.now()
        if (aheadMs > maxClockDriftMs) {
          throw new Error(
            `the store holds changes ${Math.round(aheadMs / 1000)} s in the future: set this machine's clock.`,
          )
        }
        return 'not behind the newest change in the store'
      },
    },
  ]
}

/**
 * Fails for a listed slug that no workspace has: anyone who can create workspaces could claim the slug and reach
 * private addresses.
 */
async function checkOutboundWorkspaces({ config, store }: Services): Promise<string> {
  const listed = config.outboundWorkspaces
  if (listed === 'all') return 'all may use COFFER_OUTBOUND_ALLOW'
  const missing: string[] = []
  for (const name of listed) {
    if ((await store.workspaces.findIdForAnybody(name)) === undefined) missing.push(name)
  }
  if (missing.length === 0) return `${listed.size} may use COFFER_OUTBOUND_ALLOW`
  throw new Error(
    `COFFER_OUTBOUND_WORKSPACES lists ${missing.join(', ')}, which does not exist: remove it before someone creates it.`,
  )
}

/** Checks one trail at a time, in sections: a large store takes long, but little memory. */
async function checkTrails(services: Services, print: Print): Promise<string> {
  const { audit, workspaces } = services.store
  const broken: string[] = []
  let trails = 0
  let entries = 0
  let saidAt = performance.now()
  const tellProgress = (more: number) => {
    if (performance.now() - saidAt < progressEveryMs) return
    saidAt = performance.now()
    print(`         audit trails of workspaces: ${trails} trails and ${entries + more} entries so far\n`)
  }
  let chain = await audit.findChainAfter('')
  while (chain !== undefined) {
    if (chain !== systemChain) {
      const verdict = await verifyChain(services, chain, tellProgress)
      trails++
      entries += verdict.entries
      if (!verdict.ok) {
        const slug = (await workspaces.find(chain))?.slug
        // An attacker may have written these names too: escape them, so that they cannot control the terminal.
        const name = slug === undefined ? `${JSON.stringify(chain)} (deleted)` : JSON.stringify(slug)
        broken.push(`${name} is broken at entry ${verdict.firstBroken}: ${verdict.reason}`)
      }
    }
    chain = await audit.findChainAfter(chain)
  }
  if (broken.length === 0) return `${trails} trails, ${entries} entries, chains and signatures are valid`
  const more = broken.length > maxNamed ? ` And ${broken.length - maxNamed} more.` : ''
  throw new Error(`${broken.slice(0, maxNamed).join(' ')}${more} Compare with a backup.`)
}

async function checkDisk(config: Config): Promise<string> {
  const { databaseUrl, dataDir } = config
  const folder = databaseUrl === undefined ? dataDir : process.cwd()
  const { bavail, bsize } = await statfs(folder).catch((error: unknown) => {
    throw new Error(`the folder ${folder} cannot be read (${codeOf(error)}).`)
  })
  if (databaseUrl === undefined) {
    await access(dataDir, constants.W_OK).catch((error: unknown) => {
      throw fileError(config, error)
    })
  }
  const freeBytes = bavail * bsize
  const free = `${(freeBytes / 1024 ** 3).toFixed(1)} GiB free`
  if (freeBytes < minFreeBytes) throw new Error(`only ${free}: make room before writes are refused.`)
  return free
}

/** Only for errors whose message is our own text. */
function sentence(error: unknown): string {
  return error instanceof Error ? error.message : 'unknown error'
}
