/**
 * How much of each check a run makes. `npm test` sets COFFER_TEST_TIER to fast, `npm run test:deep` to deep. Vitest started
 * by hand finds every file, and takes the counts of the fast tier. The deep tier leaves out what the fast tier has run in the
 * same way (project.ts).
 */
export const isDeep = process.env.COFFER_TEST_TIER === 'deep'

/** Vitest was started by hand. */
export const isByHand = process.env.COFFER_TEST_TIER === undefined

/** A number of runs, rounds or kills in either tier. */
export const times = (fast: number, deep: number) => (isDeep ? deep : fast)

/**
 * Test files of the deep tier alone: they install packages, build, need programs that few machines have, or fill queues
 * and disks or wait for outages for a quarter of a minute; and most tests of single pages, since `every-page.test.ts` opens each of them.
 */
export const deepOnly: readonly string[] = [
  'cli/src/cache/offline-cache.test.ts',
  'cli/src/commands/export.test.ts',
  'cli/src/commands/login-refusal.test.ts',
  'cli/src/commands/secrets/edit.test.ts',
  'cli/src/commands/sync/sync.test.ts',
  'cli/src/package.test.ts',
  'cli/src/run/redact/pipe.test.ts',
  'cli/src/run/watch.test.ts',
  'cli/src/session/keychain.test.ts',
  'dashboard/build.test.ts',
  'dashboard/src/pages/access/identities.test.ts',
  'dashboard/src/pages/access/members.test.ts',
  'dashboard/src/pages/access/removal.test.ts',
  'dashboard/src/pages/access/service-accounts.test.ts',
  'dashboard/src/pages/access/tokens.test.ts',
  'dashboard/src/pages/access/who.test.ts',
  'dashboard/src/pages/audit/audit.test.ts',
  'dashboard/src/pages/compare/compare.test.ts',
  'dashboard/src/pages/grid/conflict.test.ts',
  'dashboard/src/pages/grid/environment-name.test.ts',
  'dashboard/src/pages/grid/history-drawer.test.ts',
  'dashboard/src/pages/grid/import-choice.test.ts',
  'dashboard/src/pages/grid/import-dialog.test.ts',
  'dashboard/src/pages/grid/keyboard.test.ts',
  'dashboard/src/pages/grid/large.test.ts',
  'dashboard/src/pages/grid/outage.test.ts',
  'dashboard/src/pages/grid/overlay.test.ts',
  'dashboard/src/pages/grid/role.test.ts',
  'dashboard/src/pages/grid/side-editor.test.ts',
  'dashboard/src/pages/grid/use-dialog.test.ts',
  'dashboard/src/pages/history/history.test.ts',
  'dashboard/src/pages/me/me.test.ts',
  'dashboard/src/pages/me/preference.test.ts',
  'dashboard/src/pages/project/settings.test.ts',
  'dashboard/src/pages/setup/setup-choice.test.ts',
  'dashboard/src/pages/setup/setup.test.ts',
  'dashboard/src/pages/shell/account.test.ts',
  'dashboard/src/pages/shell/backup-banner.test.ts',
  'dashboard/src/pages/shell/grants.test.ts',
  'dashboard/src/pages/shares/shares.test.ts',
  'dashboard/src/pages/shell/palette.test.ts',
  'dashboard/src/pages/syncs/every-provider.test.ts',
  'dashboard/src/pages/syncs/syncs.test.ts',
  'dashboard/src/pages/trash/trash.test.ts',
  'dashboard/src/pages/workspace/administration.test.ts',
  'dashboard/src/pages/workspace/policy/policy.test.ts',
  'dashboard/src/pages/workspace/workspace.test.ts',
  'dashboard/src/plain/device-login.test.ts',
  'dashboard/src/plain/device.test.ts',
  'dashboard/src/plain/invite.test.ts',
  'dashboard/src/plain/share.test.ts',
  'sdk/src/outage.test.ts',
  'sdk/src/package.test.ts',
  'server/src/domain/backup/target/s3-fault.test.ts',
  'server/src/http/limits/fairness.test.ts',
  'server/src/http/limits/slot.test.ts',
  'server/src/http/nodes-outage.test.ts',
  'server/src/http/pgbouncer.test.ts',
  'server/src/http/routes/audit/key-list.test.ts',
  'server/src/http/routes/audit/stranger.test.ts',
  'server/src/http/routes/secret/echo-race.test.ts',
  'server/src/http/routes/secret/large-response.test.ts',
  'server/src/http/routes/secret/size.test.ts',
  'server/src/http/routes/share/tamper.test.ts',
  'server/src/http/routes/sync/fault.test.ts',
  'server/src/http/routes/sync/kill.test.ts',
  'server/src/http/tenant.test.ts',
  'server/src/http/wire-budget.test.ts',
  'server/src/http/wire-certificate.test.ts',
  'server/src/http/wire-handshake.test.ts',
  'server/src/jobs/cleanup.test.ts',
  'server/src/operator/demo/demo.test.ts',
  'server/src/operator/doctor/full-disk.test.ts',
  'server/src/operator/doctor/peer.test.ts',
  'server/src/operator/environment-rotation.test.ts',
  'server/src/operator/keys-move.test.ts',
  'server/src/operator/node-rotation.test.ts',
  'server/src/package.test.ts',
  'server/src/operator/backup-docs.test.ts',
  'server/src/operator/backup-kill.test.ts',
  'server/src/operator/backup-load.test.ts',
  'server/src/operator/keys-docs.test.ts',
  'server/src/operator/keys-move-kill.test.ts',
  'server/src/operator/keys-terminal.test.ts',
  'server/src/store/engine/lock-wait.test.ts',
  'server/src/jobs/backup-disk.test.ts',
  'server/src/jobs/memory.test.ts',
  'server/src/operator/scheduled-backup.test.ts',
  'server/src/operator/sealed.test.ts',
  'server/src/store/engine/lost-connection.test.ts',
  'server/src/store/engine/postgres-tls.test.ts',
  'server/src/store/engine/sqlite-file.test.ts',
  'server/src/store/engine/sqlite-snapshot.test.ts',
  'server/src/store/upgrade-kill.test.ts',
  'test/deploy-schema.test.ts',
  'test/first-minute.test.ts',
  'test/generated-client.test.ts',
  'test/github-action.test.ts',
  'test/image.test.ts',
  'test/integration-docs.test.ts',
  'test/operation-docs.test.ts',
  'test/platform-install.test.ts',
  'test/proxy.test.ts',
]

/** Files about the programs themselves, which the deep tier starts from the sources. */
export const fromSources: readonly string[] = [
  'cli/src/main.test.ts',
  'cli/src/commands/secrets/read.test.ts',
  'cli/src/session/keychain.test.ts',
  'server/src/operator/{command,first-account,process,refused-start}.test.ts',
]

/** Files about several nodes and about rotations beside a running service, which the fast tier runs on PostgreSQL alone. */
export const notOnSqlite: readonly string[] = [
  'server/src/http/nodes{,-change-log,-policy,-service-account}.test.ts',
  'server/src/operator/{,after-}rotation.test.ts',
]

/**
 * Test files that the fast tier runs on PostgreSQL too, because an engine can break what they check: the store, races,
 * several nodes, migrations and rotations, and a success and a refusal of every endpoint (by the authorisation matrix,
 * and by the tests of those routes that it cannot see succeed). Other files run there on SQLite alone.
 */
export const perEngine: readonly string[] = [
  'server/src/store/**/*.test.ts',
  'server/src/**/*race*.test.ts',
  'server/src/http/nodes*.test.ts',
  'server/src/operator/{,after-}rotation.test.ts',
  'server/src/operator/backup.test.ts',
  'server/src/operator/{account-reset,workspace}.test.ts',
  'server/src/jobs/clock.test.ts',
  'server/src/operator/doctor/administration.test.ts',
  'server/src/http/matrix*.test.ts',
  'server/src/http/routes/email.test.ts',
  'server/src/http/routes/invite.test.ts',
  'server/src/http/routes/mfa-storage.test.ts',
  'server/src/http/routes/member/staying.test.ts',
  'server/src/http/routes/policy/{policy,session-factor}.test.ts',
  'server/src/http/routes/session.test.ts',
  'server/src/http/routes/sync/{setup,sync}.test.ts',
]
