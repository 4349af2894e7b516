/** Names that pass make no program run code: the variables that a shell itself knows, and those of programs that are known to. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { requirePrograms } from '../../test/debian-package.ts'
import { isDeep } from '../../test/tier.ts'
import { whyNoVariable } from './variable-name.ts'

const shells = ['bash', ...(isDeep ? ['mksh', 'zsh'] : [])]
await requirePrograms(...shells)

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'coffer-variable-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

const run = (shell: string, script: string, args: readonly string[] = [], env: Record<string, string> = {}) =>
  spawnSync(shell, [...(shell === 'zsh' ? ['-f'] : []), '-c', script, shell, ...args], {
    cwd: folder,
    env: { ...env, PATH: process.env.PATH },
  }).stdout.toString()

/** `typeset` prints the name last, with its value in mksh. */
const knownTo = (shell: string) => [
  ...new Set(
    run(shell, shell === 'bash' ? 'compgen -v' : 'typeset + | sed "s/=.*//; s/.* //"')
      .split('\n')
      .filter((name) => /^[A-Za-z_]\w*$/.test(name)),
  ),
]

test.each(shells)('%s runs no code for a variable of its own that passes', (shell) => {
  const known = knownTo(shell)
  expect(known).toContain('RANDOM')
  const made = join(folder, 'made')
  for (const value of [`x[$(: > ${made})]`, `$(: > ${made})`, `\`: > ${made}\``]) {
    const passing = known.filter((name) => whyNoVariable(name) === undefined)
    const use = 'f() { :; }; f; (:); echo $((1 + 1))'
    const evaluate = `value=$1; shift; for name; do (eval "export $name=\\$value"; ${use}); if [ -e made ]; then rm made; echo "ran $name"; fi; done`
    expect(run(shell, evaluate, [value, ...passing])).not.toContain('ran')
    run(shell, use, [], Object.fromEntries(passing.map((name) => [name, value])))
    expect(existsSync(made)).toBe(false)
  }
})

test.each([
  ['Coffer', 'COFFER_URL COFFER_ALLOW_HTTP'],
  ['a shell', 'RANDOM SECONDS OPTIND FCEDIT fish_function_path fish_user_paths'],
  ['D-Bus', 'DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS'],
  ['make', 'CFLAGS LDFLAGS AR'],
  ['Go', 'GOCACHEPROG GOAUTH'],
  ['ssh', 'SSH_SK_HELPER SSH_SK_PROVIDER SSH_PKCS11_HELPER'],
  ['every program for AWS', 'AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE'],
  ['kubectl', 'KUBECTL_EXTERNAL_DIFF'],
  ['Nix', 'NIX_CONFIG NIX_SSHOPTS'],
  ['Ansible', 'ANSIBLE_SSH_ARGS'],
])('%s obeys %s', (program, names) => {
  for (const name of names.split(' ')) expect(whyNoVariable(name)).toBe(`${program} obeys it`)
})

test.each([
  'PORT HOST DATABASE_URL REDIS_URL REDIS_OPTS LOG_LEVEL DEBUG TZ LANG USER USERNAME PASSWORD API_KEY JWT_SECRET',
  'NODE_ENV NPM_TOKEN NODE_AUTH_TOKEN YARN_NPM_AUTH_TOKEN GITHUB_TOKEN GIT_COMMIT GIT_TOKEN GIT_AUTHOR_NAME SSH_PRIVATE_KEY',
  'AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_PROFILE AWS_REGION GOOGLE_APPLICATION_CREDENTIALS AZURE_CLIENT_SECRET KUBECONFIG',
  'DJANGO_SETTINGS_MODULE FLASK_APP RAILS_MASTER_KEY SECRET_KEY_BASE RELEASE_COOKIE RUST_LOG CARGO_REGISTRY_TOKEN SPRING_APPLICATION_JSON',
  'COMPOSER_AUTH ANSIBLE_VAULT_PASSWORD TF_VAR_region ORG_GRADLE_PROJECT_key ASPNETCORE_URLS HTTP_PROXY https_proxy NO_PROXY',
  'PGHOST PGPASSWORD MYSQL_PASSWORD SSL_CERT_FILE RESTIC_PASSWORD BORG_PASSPHRASE SOPS_AGE_KEY COFFER_MASTER_KEY',
])('everyday names pass: %s', (names) => {
  expect(names.split(' ').filter((name) => whyNoVariable(name) !== undefined)).toEqual([])
})
