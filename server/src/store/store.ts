/** All stores over one database handle: the pool or an open transaction. */
import { accountStore } from './account/account.ts'
import { deviceStore } from './account/device.ts'
import { emailConfirmationStore } from './account/email-confirmation.ts'
import { loginAddressStore } from './account/login-address.ts'
import { loginAttemptStore } from './account/login-attempt.ts'
import { mfaStore } from './account/mfa.ts'
import { passwordResetStore } from './account/password-reset.ts'
import { sessionStore } from './account/session.ts'
import { sessionFactorStore } from './account/session-factor.ts'
import { auditStore } from './audit/audit.ts'
import { auditRetentionStore } from './audit/retention.ts'
import { backupStore } from './backup.ts'
import { changeStore } from './change.ts'
import type { Db } from './engine/sql.ts'
import type { Keys } from './key/key.ts'
import { leaseStore } from './lease.ts'
import { nodeStore } from './node.ts'
import { oidcStore } from './oidc.ts'
import { purgeQueueStore } from './purge-queue.ts'
import { rowSetStore } from './row-set.ts'
import { personalValueStore } from './secret/personal.ts'
import { secretReminderStore } from './secret/reminder.ts'
import { secretStore } from './secret/secret.ts'
import { secretValueStore } from './secret/value.ts'
import { secretVersionStore } from './secret/version.ts'
import { shareStore } from './share/share.ts'
import { stayingShareStore } from './share/staying.ts'
import { shareViewStore } from './share/view.ts'
import { syncLeaseStore } from './sync/lease.ts'
import { syncLedgerStore } from './sync/ledger.ts'
import { syncRunStore } from './sync/run.ts'
import { syncSourceStore } from './sync/source.ts'
import { syncStore } from './sync/sync.ts'
import { tokenStore } from './token.ts'
import { environmentStore } from './workspace/environment.ts'
import { inviteStore } from './workspace/invite.ts'
import { memberStore } from './workspace/member.ts'
import { policyStore } from './workspace/policy.ts'
import { projectStore } from './workspace/project.ts'
import { serviceAccountStore } from './workspace/service-account.ts'
import { teamStore } from './workspace/team.ts'
import { workspaceStore } from './workspace/workspace.ts'

const tables = {
  accounts: accountStore,
  audit: auditStore,
  auditRetention: auditRetentionStore,
  backups: backupStore,
  changes: changeStore,
  devices: deviceStore,
  emailConfirmations: emailConfirmationStore,
  passwordResets: passwordResetStore,
  environments: environmentStore,
  purgeQueue: purgeQueueStore,
  invites: inviteStore,
  leases: leaseStore,
  loginAddresses: loginAddressStore,
  loginAttempts: loginAttemptStore,
  members: memberStore,
  mfa: mfaStore,
  nodes: nodeStore,
  oidc: oidcStore,
  policies: policyStore,
  personalValues: personalValueStore,
  projects: projectStore,
  rowSets: rowSetStore,
  secrets: secretStore,
  secretReminders: secretReminderStore,
  secretValues: secretValueStore,
  secretVersions: secretVersionStore,
  serviceAccounts: serviceAccountStore,
  sessions: sessionStore,
  sessionFactors: sessionFactorStore,
  shares: shareStore,
  shareViews: shareViewStore,
  stayingShares: stayingShareStore,
  syncs: syncStore,
  syncLeases: syncLeaseStore,
  syncLedger: syncLedgerStore,
  syncRuns: syncRunStore,
  syncSources: syncSourceStore,
  teams: teamStore,
  tokens: tokenStore,
  workspaces: workspaceStore,
}
type Tables = typeof tables

export type Store = { readonly [Name in keyof Tables]: ReturnType<Tables[Name]> }

/** What one can ask outside of a transaction: everything that returns an answer. */
export type ReadStore = { readonly [Name in keyof Store]: Asking<Store[Name]> }
type Asking<Table> = {
  [Name in keyof Table as Table[Name] extends (...args: never) => infer Answer
    ? undefined extends Answer
      ? never
      : Name
    : Name]: Table[Name]
}

type Handle = { readonly db: Db; readonly keys: Keys; readonly opened: { [table: string]: unknown } }

/**
 * Opens the store of a table when it is first used: most transactions need a few of forty. Defining a property on the
 * handle instead would take ten times as long.
 */
const lazyTables = Object.create(
  null,
  Object.fromEntries(
    Object.entries(tables).map(([name, open]) => {
      const property: PropertyDescriptor & ThisType<Handle> = {
        get() {
          this.opened[name] ??= open(this.db, this.keys)
          return this.opened[name]
        },
      }
      return [name, property]
    }),
  ),
)

const opened = Symbol('store')

/** All stores over one database handle. The handle holds them, for jobs that share a commit. */
export function storeOver(db: Db & { [opened]?: Store }, keys: Keys): Store {
  const handle: Handle = { db, keys, opened: {} }
  db[opened] ??= Object.assign(Object.create(lazyTables), handle) as Store
  return db[opened]
}
