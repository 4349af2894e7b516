/** The store itself: durability, files, keys, rows and audit trails. */
import { systemChain } from '../../domain/audit/event.ts'
import { verifyChain } from '../../domain/audit/verify.ts'
import type { Services } from '../../domain/context.ts'
import { describeCustody } from '../../domain/custody.ts'
import { findUndoneEnd, readUpgradeStatus } from '../../domain/upgrade/upgrade.ts'
import { findBrokenSets } from '../../domain/workspace/row-set.ts'
import { installation } from '../../installation.ts'
import { custodyName } from '../../master-key/custody.ts'
import type { Engine } from '../../store/engine/sql.ts'
import { countTampered } from '../../store/integrity.ts'
import { steps } from '../../store/migrate.ts'
import { type Check, type Finding, note, ok, wrong } from './finding.ts'

const progressEveryMs = 10_000
const maxNamed = 50

const tampering = 'Somebody with access to the database may have changed or removed records.'
const compare = 'compare with a backup, and restore it if you cannot explain the difference.'

/** Checks that need no key. */
export function lockedChecks(engine: Engine): Check[] {
  return [
    {
      name: 'store',
      why: 'An acknowledged write could be lost.',
      fix: 'correct the setting of the database.',
      run: async () => {
        await engine.checkDurability()
        const schema = `schema at step ${await engine.migratedSteps()} of ${steps.length}`
        return ok(`${engine.kind}, commits survive a power failure, ${schema}`)
      },
    },
    {
      name: 'database files',
      why: 'Records may be missing, and the damage may grow.',
      fix: 'stop the service, replace the disk if it fails, and restore the last good backup.',
      isLong: true,
      run: async () => ok(await engine.checkFiles()),
    },
  ]
}

export function storeChecks(services: Services, tell: (text: string) => void): Check[] {
  const { engine, keys } = services
  return [
    ...lockedChecks(engine),
    {
      name: 'keys',
      why: 'Values could not be decrypted.',
      fix: 'start with the master key that the store was created with.',
      run: () => checkCustody(services),
    },
    {
      name: 'rows that grant rights',
      why: tampering,
      fix: compare,
      isLong: true,
      run: async () => {
        const tampered = await countTampered(engine, keys)
        if (tampered.length === 0) return ok('all valid')
        return wrong(
          `changed outside of Coffer: ${tampered.join(', ')}`,
          'They grant nothing any more, but somebody tried.',
          'restore them from a backup or remove them.',
        )
      },
    },
    {
      name: 'sets of rows that grant rights',
      why: tampering,
      fix: compare,
      isLong: true,
      run: () => checkSets(services),
    },
    {
      name: 'upgrade',
      why: 'The state of the upgrade could not be read.',
      fix: 'look at the log of the service.',
      run: () => checkUpgrade(services),
    },
    {
      name: 'audit trail of the system',
      why: tampering,
      fix: compare,
      isLong: true,
      run: () => checkSystemTrail(services),
    },
    {
      name: 'audit trails of workspaces',
      why: tampering,
      fix: compare,
      isLong: true,
      run: () => checkTrails(services, tell),
    },
    {
      name: 'workspaces with private addresses',
      why: 'Whoever creates a workspace of that name may reach private addresses.',
      fix: 'remove it from COFFER_OUTBOUND_WORKSPACES.',
      run: () => checkOutboundWorkspaces(services),
    },
  ]
}

const countOf = (count: number, one: string, several: string) => `${count} ${count === 1 ? one : several}`

async function checkSets({ keys, store }: Services): Promise<Finding> {
  if (!keys.isFinished('row-set')) return ok('not checked before the upgrade is finished')
  const broken: string[] = []
  for await (const { slug, what } of findBrokenSets(store)) broken.push(`${what} of ${JSON.stringify(slug)}`)
  if (broken.length === 0) return ok('complete')
  const more = broken.length > maxNamed ? ` and ${broken.length - maxNamed} more` : ''
  return wrong(
    `removed or put back outside of Coffer: ${broken.slice(0, maxNamed).join(', ')}${more}`,
    `${tampering} A workspace is closed if its members, service accounts or policy are among them.`,
    `restore a backup, or compare with the audit trail, correct what is wrong and run "${installation.command} integrity accept <ws>".`,
  )
}

async function checkUpgrade(services: Services): Promise<Finding> {
  const undone = await findUndoneEnd(services)
  if (undone !== undefined) return wrong(undone, tampering, compare)
  const { level, waiting } = await readUpgradeStatus(services)
  if (waiting.length === 0) return ok(`finished (level ${level})`)
  return note(
    `not finished: ${waiting.map(({ name }) => name).join(', ')}`,
    `Until then not everything is protected: ${waiting.map(({ about }) => about).join('; ')} only afterwards.`,
    `run "${installation.command} upgrade finish" once no node of an earlier version runs any more.`,
  )
}

async function checkSystemTrail(services: Services): Promise<Finding> {
  const verdict = await verifyChain(services, systemChain)
  if (verdict.ok && verdict.entries === 0 && (await services.store.accounts.count()) > 0) {
    return wrong('there are accounts but no entries: the trail was erased', tampering, compare)
  }
  if (verdict.ok) return ok(`${countOf(verdict.entries, 'entry', 'entries')}, chain and signature are valid`)
  return wrong(`broken at entry ${verdict.firstBroken}: ${verdict.reason}`, tampering, compare)
}

async function checkCustody(services: Services): Promise<Finding> {
  const { current, former } = await describeCustody(services)
  const opens = `the master key opens all ${services.keys.keyring.all.length} root key(s)`
  if (former.length === 0) return ok(current ? `${opens}; custody: ${custodyName(current.kind)}` : opens)
  return note(
    `${opens}, and ${former.length} former master key(s) open them too`,
    'A move of the master key is not finished: whoever has a former key can still read every secret.',
    'change the settings of every node, restart them, then run "keys move --finish".',
  )
}

/** Checks one trail at a time, in sections: a large store takes long, but little memory. */
async function checkTrails(services: Services, tell: (text: string) => void): Promise<Finding> {
  const { audit, workspaces } = services.store
  const broken: string[] = []
  let trails = 0
  let entries = 0
  let saidAt = performance.now()
  const tellProgress = (more: number) => {
    if (performance.now() - saidAt < progressEveryMs) return
    saidAt = performance.now()
    tell(`         audit trails of workspaces: ${trails} trails and ${entries + more} entries so far\n`)
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
  if (broken.length === 0)
    return ok(
      `${countOf(trails, 'trail', 'trails')}, ${countOf(entries, 'entry', 'entries')}, chains and signatures are valid`,
    )
  const more = broken.length > maxNamed ? ` And ${broken.length - maxNamed} more.` : ''
  return wrong(`${broken.slice(0, maxNamed).join(' ')}${more}`, tampering, compare)
}

/** A listed slug that no workspace has can be claimed by anyone who can create workspaces. */
async function checkOutboundWorkspaces({ config, store }: Services): Promise<Finding> {
  const listed = config.outboundWorkspaces
  if (listed === 'all') return ok('all may use COFFER_OUTBOUND_ALLOW')
  const missing: string[] = []
  for (const name of listed) {
    if ((await store.workspaces.findIdForAnybody(name)) === undefined) missing.push(name)
  }
  if (missing.length === 0) return ok(`${listed.size} may use COFFER_OUTBOUND_ALLOW`)
  return wrong(
    `COFFER_OUTBOUND_WORKSPACES lists ${missing.join(', ')}, which does not exist`,
    'Whoever creates a workspace of that name may reach private addresses.',
    'remove it before someone creates it.',
  )
}
