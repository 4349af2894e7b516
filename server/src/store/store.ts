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

export function createStore(db: Db, keys: Keys) {
  return {
    accounts: accountStore(db, keys),
    audit: auditStore(db),
    auditRetention: auditRetentionStore(db),
    backups: backupStore(db),
    changes: changeStore(db),
    devices: deviceStore(db, keys),
    emailConfirmations: emailConfirmationStore(db, keys),
    passwordResets: passwordResetStore(db, keys),
    environments: environmentStore(db, keys),
    purgeQueue: purgeQueueStore(db),
    invites: inviteStore(db, keys),
    leases: leaseStore(db),
    loginAddresses: loginAddressStore(db, keys),
    loginAttempts: loginAttemptStore(db, keys),
    members: memberStore(db, keys),
    mfa: mfaStore(db, keys),
    nodes: nodeStore(db),
    oidc: oidcStore(db, keys),
    policies: policyStore(db, keys),
    personalValues: personalValueStore(db),
    projects: projectStore(db),
    rowSets: rowSetStore(db, keys),
    secrets: secretStore(db),
    secretReminders: secretReminderStore(db),
    secretValues: secretValueStore(db, keys),
    secretVersions: secretVersionStore(db),
    serviceAccounts: serviceAccountStore(db, keys),
    sessions: sessionStore(db, keys),
    sessionFactors: sessionFactorStore(db, keys),
    shares: shareStore(db, keys),
    shareViews: shareViewStore(db),
    stayingShares: stayingShareStore(db),
    syncs: syncStore(db, keys),
    syncLeases: syncLeaseStore(db),
    syncLedger: syncLedgerStore(db),
    syncRuns: syncRunStore(db),
    syncSources: syncSourceStore(db),
    teams: teamStore(db),
    tokens: tokenStore(db, keys),
    workspaces: workspaceStore(db, keys),
  }
}

export type Store = ReturnType<typeof createStore>

const stores = new WeakMap<Db, Store>()

/** Caches the store per handle: SQLite's writer uses one handle for the life of the process. */
export function storeOver(db: Db, keys: Keys): Store {
  let store = stores.get(db)
  if (!store) {
    store = createStore(db, keys)
    stores.set(db, store)
  }
  return store
}
