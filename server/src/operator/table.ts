/** The operator's commands. A command is loaded when it is called, so that none costs the service memory or time. */
import { readConfig } from '../config.ts'
import type { Print } from './with-operator.ts'

export type OperatorCommand = {
  /** What calls it, such as `keys status`. */
  readonly words: string
  /** Least and most number of arguments after the words, options included. */
  readonly args: readonly [number, number]
  /** As the help shows it. */
  readonly usage: string
  readonly about: string
  /** Returns the exit code. */
  run(call: OperatorCall): Promise<number>
}

type OperatorCall = {
  readonly env: Readonly<Record<string, string | undefined>>
  /** Arguments after the words. */
  readonly args: readonly string[]
  readonly print: Print
}

export const commandTable: readonly OperatorCommand[] = [
  {
    words: 'health',
    args: [0, 0],
    usage: 'health',
    about: 'ask the service on this machine whether it is up; exits with 1 if not',
    run: async ({ env, print }) => (await import('./health.ts')).checkHealth(readConfig(env), print),
  },
  {
    words: 'keys status',
    args: [0, 0],
    usage: 'keys status',
    about: 'show the root, workspace and signing keys and what still needs each',
    run: async ({ env, print }) => (await import('./keys.ts')).showKeys(readConfig(env), print),
  },
  {
    words: 'keys rotate-root',
    args: [0, 0],
    usage: 'keys rotate-root',
    about: 'create a new root key and re-wrap everything with it; safe to stop and run again',
    run: async ({ env, print }) => (await import('./keys.ts')).rotateRoot(readConfig(env), print),
  },
  {
    words: 'keys rotate-workspace',
    args: [1, 1],
    usage: 'keys rotate-workspace <ws>',
    about: 'give one workspace (slug or id) a new key; safe to stop and run again',
    run: async ({ env, args: [workspace = ''], print }) =>
      (await import('./keys.ts')).rotateWorkspace(readConfig(env), workspace, print),
  },
  {
    words: 'keys rotate-environment',
    args: [3, 3],
    usage: 'keys rotate-environment <ws> <project> <environment>',
    about: "re-encrypt one environment's values with a new key; safe to stop and run again",
    run: async ({ env, args: [workspace = '', project = '', environment = ''], print }) =>
      (await import('./keys.ts')).rotateEnvironment(readConfig(env), { workspace, project, environment }, print),
  },
  {
    words: 'keys split',
    args: [0, 6],
    usage: 'keys split [--shares 5] [--threshold 3] [--out <folder>]',
    about: 'put the store under a new master key that exists only in shares; such a service starts sealed',
    run: async ({ env, args, print }) => (await import('./keys-split.ts')).splitKeys(env, args, print),
  },
  {
    words: 'keys unseal',
    args: [0, 0],
    usage: 'keys unseal',
    about: 'hand shares to the sealed service on this machine, at a terminal or one per line on stdin',
    run: async ({ env, print }) => (await import('./keys-unseal.ts')).unseal(readConfig(env), print),
  },
  {
    words: 'keys move',
    args: [1, 8],
    usage: 'keys move --to <kind> <place>',
    about: `put the store under a new master key from another source: file, command, aws-kms,
google-kms, azure-key-vault, transit or shares; then --finish; safe to stop and run again`,
    run: async ({ env, args, print }) => (await import('./keys-move.ts')).moveKeys(env, args, print),
  },
  {
    words: 'account reset-mfa',
    args: [1, 1],
    usage: 'account reset-mfa <email>',
    about: 'remove the second factor of a person who has lost it; audited',
    run: async ({ env, args: [email = ''], print }) =>
      (await import('./account.ts')).resetMfa(readConfig(env), email, print),
  },
  {
    words: 'account reset-password',
    args: [1, 1],
    usage: 'account reset-password <email>',
    about: `print a link with which a person who has forgotten the password sets a new one, once and
within 30 minutes; ends sessions, keeps the second factor; audited`,
    run: async ({ env, args: [email = ''], print }) =>
      (await import('./account.ts')).resetPassword(readConfig(env), email, print),
  },
  {
    words: 'account list',
    args: [0, 0],
    usage: 'account list',
    about: 'show the address of every account, and what it owns; audited',
    run: async ({ env, print }) => (await import('./account.ts')).listAccounts(readConfig(env), print),
  },
  {
    words: 'workspace transfer',
    args: [2, 2],
    usage: 'workspace transfer <ws> <email>',
    about: 'make a person the owner of a workspace (slug or id) whose owner is gone; audited',
    run: async ({ env, args: [workspace = '', email = ''], print }) =>
      (await import('./workspace.ts')).transfer(readConfig(env), workspace, email, print),
  },
  {
    words: 'policy reset',
    args: [1, 1],
    usage: 'policy reset <ws>',
    about: 'remove the policy of a workspace (slug or id) that shuts its owner out; audited',
    run: async ({ env, args: [workspace = ''], print }) =>
      (await import('./policy.ts')).removePolicy(readConfig(env), workspace, print),
  },
  {
    words: 'integrity accept',
    args: [1, 1],
    usage: 'integrity accept <ws>',
    about: `take members, service accounts, policy, tokens and identities of a workspace (slug or id) for right
as they are in the database now; audited`,
    run: async ({ env, args: [workspace = ''], print }) =>
      (await import('./integrity.ts')).acceptWorkspace(readConfig(env), workspace, print),
  },
  {
    words: 'upgrade status',
    args: [0, 0],
    usage: 'upgrade status',
    about: 'show what waits for "upgrade finish", and the nodes with their versions',
    run: async ({ env, print }) => (await import('./upgrade.ts')).showUpgrade(readConfig(env), print),
  },
  {
    words: 'upgrade finish',
    args: [0, 0],
    usage: 'upgrade finish',
    about: `switch on what waits for the end of an upgrade, once no node of an earlier version runs any more;
audited; safe to stop and run again`,
    run: async ({ env, print }) => (await import('./upgrade.ts')).endUpgrade(readConfig(env), print),
  },
  {
    words: 'audit archive',
    args: [0, Number.POSITIVE_INFINITY],
    usage: 'audit archive --to <folder> [--before <date>] [--workspace <ws>]',
    about: `write audit entries that are not archived yet to files, and remove archived ones that are
older than the date or COFFER_AUDIT_DAYS; safe to stop and run again`,
    run: async ({ env, args, print }) => (await import('./audit.ts')).archiveAudit(env, args, print),
  },
  {
    words: 'audit verify-archive',
    args: [1, Number.POSITIVE_INFINITY],
    usage: 'audit verify-archive <file>…',
    about: 'verify archives offline: every entry, and that each file continues the previous one',
    run: async ({ args, print }) => (await import('./audit.ts')).verifyArchives(args, print),
  },
  {
    words: 'backup verify',
    args: [1, Number.POSITIVE_INFINITY],
    usage: 'backup verify <file or s3://…> [--scratch <folder>]',
    about: 'restore a backup into a scratch store and check everything in it',
    run: async ({ env, args, print }) => (await import('./backup.ts')).verifyFile(env, args, print),
  },
  {
    words: 'backup',
    args: [1, Number.POSITIVE_INFINITY],
    usage: 'backup <file, folder or s3://…> [--no-verify] [--scratch <folder>]',
    about: 'write a backup while the service runs, and verify it; the master key is not in it',
    run: async ({ env, args, print }) => (await import('./backup.ts')).backUp(env, args, print),
  },
  {
    words: 'restore',
    args: [1, Number.POSITIVE_INFINITY],
    usage: 'restore <file or s3://…> [--move [--even-if-old]] [--revoke-tokens] [--since-store <folder or URL>]',
    about: `load a backup into an empty store of either engine, end sessions and shares, pause syncs
and list tokens for review; with --move everything stays as it is`,
    run: async ({ env, args, print }) => (await import('./restore.ts')).restore(env, args, print),
  },
  {
    words: 'doctor --json',
    args: [0, 0],
    usage: 'doctor --json',
    about: 'the findings of doctor as a list of objects: check, level, what, why and fix',
    run: async ({ env, print }) => (await import('./doctor/doctor.ts')).runDoctor(env, print, { isJson: true }),
  },
  {
    words: 'doctor',
    args: [0, 0],
    usage: 'doctor',
    about: `check settings, TLS, store, keys, disk, clocks and the servers that the settings name;
says why each problem matters and how to fix it, and changes nothing`,
    run: async ({ env, print }) => (await import('./doctor/doctor.ts')).runDoctor(env, print),
  },
  {
    words: 'demo --into',
    args: [1, 1],
    usage: 'demo --into <ws>',
    about: 'fill a new workspace of this slug with an example to look at, beside real ones',
    run: async ({ env, args: [into], print }) => (await import('./demo/demo.ts')).fillDemo(env, into, print),
  },
  {
    words: 'demo',
    args: [0, 0],
    usage: 'demo',
    about: 'fill an empty store with an example to look at: people, projects, secrets and their history',
    run: async ({ env, print }) => (await import('./demo/demo.ts')).fillDemo(env, undefined, print),
  },
]
