/** `doctor`: checks an installation and teaches: what is wrong, why it matters, and what mends it. Writes nothing. */
import { openServices } from '../../app.ts'
import { type Config, readConfig } from '../../config.ts'
import { ConfigError } from '../../config-error.ts'
import type { Services } from '../../domain/context.ts'
import { isFailure } from '../../failure.ts'
import { installation } from '../../installation.ts'
import { createLog } from '../../log.ts'
import { NoSharesError } from '../../master-key/error.ts'
import { explainFileError, findLockedStore } from '../../open-store.ts'
import type { Engine } from '../../store/engine/sql.ts'
import { storeIdentity } from '../../store/instance.ts'
import type { Print } from '../with-operator.ts'
import { addressChecks } from './address.ts'
import { administrationChecks } from './administration.ts'
import { archiveChecks } from './archive.ts'
import { backupChecks } from './backup.ts'
import { clockChecks } from './clock.ts'
import { diskChecks } from './disk.ts'
import { fileChecks } from './file.ts'
import { type Check, type Finding, lineOf, note, ok, runCheck, sentenceOf, wrong } from './finding.ts'
import { growthChecks } from './growth.ts'
import { peerChecks } from './peer.ts'
import { postgresChecks } from './postgres.ts'
import { programChecks } from './program.ts'
import { runningChecks } from './running.ts'
import { lockedChecks, storeChecks } from './store.ts'

type Environment = Readonly<Record<string, string | undefined>>
type Report = (name: string, finding: Finding) => void

/** Groups of checks that need no store. */
const withoutStore = [programChecks, addressChecks, fileChecks, diskChecks, peerChecks, runningChecks]
/** Groups of checks of the opened store. */
const ofStore = [
  storeChecks,
  growthChecks,
  administrationChecks,
  clockChecks,
  archiveChecks,
  backupChecks,
  postgresChecks,
]

/** Returns the exit code: 1 if something is wrong, 0 otherwise. */
export async function runDoctor(env: Environment, print: Print, { isJson = false } = {}): Promise<number> {
  const found: { readonly check: string; readonly finding: Finding }[] = []
  const report: Report = (check, finding) => {
    found.push({ check, finding })
    if (!isJson) print(lineOf(check, finding))
  }
  await checkAll(env, report, isJson ? () => undefined : print)
  if (isJson) print(`${JSON.stringify(found.map(asObject), undefined, 2)}\n`)
  return found.some(({ finding }) => finding.level === 'wrong') ? 1 : 0
}

const asObject = ({ check, finding: { level, what, why, fix } }: { check: string; finding: Finding }) => ({
  check,
  level,
  what,
  why: why ?? null,
  fix: fix ?? null,
})

async function checkAll(env: Environment, report: Report, tell: (text: string) => void): Promise<void> {
  let config: Config
  try {
    config = readConfig(env)
  } catch (error) {
    const fix = `correct the setting; "${installation.command} --help" lists all of them.`
    const problems = error instanceof ConfigError ? error.problems : [sentenceOf(error)]
    for (const problem of problems) report('settings', wrong(problem, 'The service does not start with it.', fix))
    return
  }
  report('settings', ok('all are valid'))
  const identity = await checkStore(config, report, tell)
  // Checked even if the store does not open: a full disk may be the reason.
  for (const group of withoutStore) await runGroup(config, group(config, env, identity), report)
}

/** Returns the identity of the store, if it opens. */
async function checkStore(config: Config, report: Report, tell: (text: string) => void): Promise<string | undefined> {
  let services: Services
  try {
    services = await explainFileError(config, () => openServices(config, createLog('silent'), 'read'))
  } catch (error) {
    if (error instanceof NoSharesError) return checkSealed(config, report)
    // A schema of another version: the sentence says what to do, and the service may well start.
    const why = isFailure(error, 'internal')
      ? 'Until then nothing in the store can be checked.'
      : 'Without the store and its keys the service does not start, and nothing in it can be checked.'
    report('store and keys', wrong(sentenceOf(error), why, 'mend this first, then run doctor again.'))
    return undefined
  }
  try {
    for (const group of ofStore) await runGroup(config, group(services, tell), report)
    return await storeIdentity(services.engine)
  } finally {
    await services.engine.close()
  }
}

/** Checks what needs no key: a nightly run has no terminal at which somebody could hand in shares. */
async function checkSealed(config: Config, report: Report): Promise<string | undefined> {
  let engine: Engine
  try {
    engine = await explainFileError(config, () => findLockedStore(config))
  } catch (error) {
    const why = 'Without the store the service does not start, and nothing in it can be checked.'
    report('store and keys', wrong(sentenceOf(error), why, 'mend this first, then run doctor again.'))
    return undefined
  }
  try {
    await runGroup(config, lockedChecks(engine), report)
    const why = 'Rows that grant rights, audit trails and backups are checked with the key only.'
    report(
      'keys',
      note(
        'not checked, since the master key is split and nobody handed in its shares',
        why,
        `run "${installation.command} doctor" with the shares now and then.`,
      ),
    )
    return await storeIdentity(engine)
  } finally {
    await engine.close()
  }
}

async function runGroup(config: Config, checks: readonly Check[], report: Report): Promise<void> {
  for (const check of checks) {
    const explained = { ...check, run: () => explainFileError(config, async () => check.run()) }
    for (const finding of await runCheck(explained)) report(check.name, finding)
  }
}
