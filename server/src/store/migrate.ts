/**
 * Migrations: each statement is one step, committed with its bookkeeping. The next start continues after an
 * interruption, nodes that start together take turns, and a newer schema is refused.
 */
import { Failure } from '../failure.ts'
import type { Engine } from './engine/sql.ts'
import { foundation } from './migrations/001-foundation.ts'
import { secret } from './migrations/002-secret.ts'
import { leftover } from './migrations/003-leftover.ts'
import { invite } from './migrations/004-invite.ts'
import { person } from './migrations/005-person.ts'
import { identity } from './migrations/006-identity.ts'
import { share } from './migrations/007-share.ts'
import { sync } from './migrations/008-sync.ts'
import { batch } from './migrations/009-batch.ts'
import { author } from './migrations/010-author.ts'
import { cliToken } from './migrations/011-cli-token.ts'
import { keyRegister } from './migrations/012-key-register.ts'
import { deviceSession } from './migrations/013-device-session.ts'
import { auditList } from './migrations/014-audit-list.ts'
import { auditMark } from './migrations/015-audit-mark.ts'
import { secretPast } from './migrations/016-secret-past.ts'
import { email } from './migrations/017-email.ts'
import { secretSearch } from './migrations/018-secret-search.ts'
import { access } from './migrations/019-access.ts'
import { backup } from './migrations/020-backup.ts'
import { custody } from './migrations/021-custody.ts'
import { lease } from './migrations/022-lease.ts'
import { authority } from './migrations/023-authority.ts'
import { passwordReset } from './migrations/024-password-reset.ts'
import { syncRun } from './migrations/025-sync-run.ts'
import { rowSet } from './migrations/026-row-set.ts'

const migrations = [
  foundation,
  secret,
  leftover,
  invite,
  person,
  identity,
  share,
  sync,
  batch,
  author,
  cliToken,
  keyRegister,
  deviceSession,
  auditList,
  auditMark,
  secretPast,
  email,
  secretSearch,
  access,
  backup,
  custody,
  lease,
  authority,
  passwordReset,
  syncRun,
  rowSet,
]

export const steps: readonly { name: string; statement: string }[] = migrations.flatMap((migration) =>
  migration.statements.map((statement, index) => ({ name: `${migration.name}-${index + 1}`, statement })),
)

/**
 * A step that no version knows, in the log of a store that is being restored: the service must not start on half of a
 * store, not even in an older version.
 */
export const restoringStep = 1_000_000

/** Returns the number of applied steps. `tell` learns of the upgrade of an existing store. */
export async function migrate(
  engine: Engine,
  nowMs: number,
  tell: (message: string) => void = () => undefined,
): Promise<number> {
  const applied = await engine.migratedSteps()
  refuseNewerSchema(engine, applied)
  if (applied > 0 && applied < steps.length) await prepareUpgrade(engine, applied, tell)
  for (let step = applied + 1; step <= steps.length; step++) {
    const next = steps[step - 1]
    if (next) await engine.migrateStep(step, next.name, next.statement, nowMs)
  }
  // A newer version may have migrated further while we waited for the lock.
  refuseNewerSchema(engine, await engine.migratedSteps())
  await engine.snapshots?.finish()
  return steps.length - applied
}

async function prepareUpgrade(engine: Engine, applied: number, tell: (message: string) => void): Promise<void> {
  const snapshot = await engine.snapshots?.make(applied + 1)
  const copied = snapshot === undefined ? '' : `; its state before that is in ${snapshot}`
  tell(`upgrading the store from step ${applied} to ${steps.length}${copied}`)
}

/** For commands that must not change the schema, because a service of an older version may be running. */
export async function requireCurrentSchema(engine: Engine): Promise<void> {
  const applied = await engine.migratedSteps()
  refuseNewerSchema(engine, applied)
  if (applied === steps.length) return
  throw new Failure(
    'internal',
    `The store is at step ${applied} of ${steps.length}: the next start of the service brings it up to date.`,
  )
}

function refuseNewerSchema({ snapshots }: Engine, applied: number): void {
  if (applied <= steps.length) return
  if (applied === restoringStep) {
    throw new Failure(
      'internal',
      'A restore into this store was interrupted: run the restore again, which starts it over, or use an empty store.',
    )
  }
  const snapshot = snapshots?.find(steps.length)
  const source = snapshot ? `put ${snapshot.path} in its place` : 'restore a backup of before the upgrade'
  // If the newest copy is gone, an older one is left: the time says how much would be lost.
  const since = snapshot ? new Date(snapshot.leftAt).toISOString() : 'the upgrade'
  throw new Failure(
    'internal',
    `The database was migrated by a newer version of Coffer (step ${applied}, this version knows ${steps.length}): start that version or a later one. To go back to this version, ${source} as docs/upgrade.md describes; everything written since ${since} is lost then.`,
  )
}
