/**
 * One path of a KV version 2 store, in HashiCorp Vault or OpenBao. Every name is a key inside the path, beside keys of
 * others. Each write names the version it is based on (check-and-set), so it never undoes somebody else's write.
 */
import { parseExactly } from './exact-json.ts'
import { VendorFault } from './fault.ts'
import { unlessForbidden } from './offered-options.ts'
import { checkOrigin, originOf } from './origin.ts'
import type { Connection, Op, OpResult, Option, Provider, RemoteItem, Values } from './provider.ts'
import { giveUp } from './retry.ts'
import {
  checkPath,
  encodePath,
  isForbidden,
  openVault,
  sendToVault,
  type VaultSession,
  verifyVault,
} from './vault-session.ts'
import { faultOf, type VendorResponse } from './vendor-http.ts'
import { at, entriesAt, listAt, maybeTextAt, textAt } from './vendor-json.ts'

/** The session of one run. */
type Vault = VaultSession & {
  /** The data as listed, on which the plan is based. */
  seen: Snapshot['data']
}

/** `data` is undefined if the path was never written or was deleted; a deleted path keeps its version. */
type Snapshot = { readonly version: number; readonly data: ReadonlyMap<string, unknown> | undefined }

const maxAttempts = 5
const dataPath = ({ target }: Connection) => `${encodePath(target.mount)}/data/${encodePath(target.path)}`

/** Every token may read this list; it shows the mounts that the token can use. */
async function listMounts(connection: Connection): Promise<Option[] | undefined> {
  const answer = await unlessForbidden(sendToVault(openVault(connection), 'sys/internal/ui/mounts', { method: 'GET' }))
  const mounts = entriesAt(answer?.json ?? { data: { secret: {} } }, 'data', 'secret')
    .filter(([, mount]) => at(mount, 'type') === 'kv' && at(mount, 'options', 'version') === '2')
    .map(([path]) => path.replace(/\/$/, ''))
  return mounts.length === 0 ? undefined : mounts.map((path) => ({ label: path, value: path }))
}

async function read(vault: Vault): Promise<Snapshot> {
  const accept = (response: VendorResponse) => response.status === 404 || isForbidden(response)
  const response = await sendToVault(vault, dataPath(vault.connection), { method: 'GET', accept })
  if (response.status === 403) {
    await requireVersionTwo(vault)
    throw faultOf(response, vault.connection.now(), 'scope', 'path')
  }
  if (response.status === 404) {
    // A deleted path has a version, an unused path has no errors, and a missing mount has one.
    const version = at(response.json, 'data', 'metadata', 'version')
    if (typeof version === 'number') return { version, data: undefined }
    if (listAt(response.json, 'errors').length > 0) throw faultOf(response, vault.connection.now(), 'gone', 'mount')
    await requireVersionTwo(vault)
    return { version: 0, data: undefined }
  }
  // Version 1 answers with the secret of another path, without metadata.
  if (at(response.json, 'data', 'metadata') === undefined) await requireVersionTwo(vault)
  const version = Number(textAt(response.json, 'data', 'metadata', 'version'))
  const entries = entriesAt(response.json, 'data', 'data')
  // Only numbers can differ, alone or inside of objects.
  const isExact = entries.every(([, value]) => typeof value === 'string')
  return { version, data: new Map(isExact ? entries : entriesAt(parseExactly(response.text), 'data', 'data')) }
}

/** Throws if the mount is known to be KV version 1, where a write would store our request body itself as the secret. */
async function requireVersionTwo(vault: Vault): Promise<void> {
  const { target } = vault.connection
  const path = `sys/internal/ui/mounts/${encodePath(target.mount)}/${encodePath(target.path)}`
  const { status, json } = await sendToVault(vault, path, { method: 'GET', accept: [403, 404] })
  if (status !== 200 || at(json, 'data', 'options', 'version') === '2') return
  const what = at(json, 'data', 'type') === 'kv' ? 'a KV store of version 1' : 'not a KV store'
  throw new VendorFault('gone', `The mount ${target.mount} is ${what}.`, {
    field: 'mount',
    remedy: 'Choose a mount of KV version 2, or upgrade this one.',
  })
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))

/** The changes to write, and the result of each op once they are written. */
function plan({ seen }: Vault, data: Snapshot['data'], ops: readonly Op[]) {
  const changes = new Map<string, string | null>()
  const results: OpResult[] = []
  for (const op of ops) {
    const existing = data?.get(op.name)
    const isDone = existing === (op.kind === 'delete' ? undefined : op.value)
    const isSeen = op.kind !== 'create' && (!seen?.has(op.name) || textOf(existing) === textOf(seen.get(op.name)))
    const isTaken = !isDone && existing !== undefined && !isSeen
    if (!isDone && !isTaken) changes.set(op.name, op.kind === 'delete' ? null : op.value)
    const what =
      op.kind === 'create' ? 'The path already has a key with this name.' : 'Somebody has just changed this key.'
    const fault = new VendorFault('conflict', what)
    results.push(isTaken ? { name: op.name, fault } : { name: op.name })
  }
  return { changes, results }
}

/** False if the path has changed since it was read. */
async function write(vault: Vault, current: Snapshot, changes: ReadonlyMap<string, string | null>): Promise<boolean> {
  const merged = new Map<string, unknown>([...(current.data ?? []), ...changes])
  for (const [name, value] of changes) if (value === null) merged.delete(name)
  const response = await sendToVault(vault, dataPath(vault.connection), {
    method: 'POST',
    json: { data: Object.fromEntries(merged), options: { cas: current.version } },
    accept: [400],
  })
  return response.status === 400 ? isStale(vault, response) : true
}

function isStale(vault: Vault, response: VendorResponse): false {
  if (/check-and-set parameter did not match/.test(maybeTextAt(response.json, 'errors', 0) ?? '')) return false
  throw faultOf(response, vault.connection.now())
}

async function* list(vault: Vault): AsyncIterable<RemoteItem> {
  const { data } = await read(vault)
  vault.seen = data
  for (const [name, value] of data ?? []) {
    yield { name, value: textOf(value) }
  }
}

async function* apply(vault: Vault, ops: readonly Op[]): AsyncIterable<OpResult> {
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const current = await read(vault)
    const { changes, results } = plan(vault, current.data, ops)
    if (changes.size === 0 || (await write(vault, current, changes))) return yield* results
  }
  throw giveUp(new VendorFault('transient', 'Others changed the path repeatedly during the write.'))
}

const rule = (mount: string, path: string) => `path "${mount}/data/${path}" {
  capabilities = ["create", "read", "update"]
}`

const policy = ({ mount, path }: Values) =>
  mount !== undefined && path !== undefined
    ? rule(mount, path)
    : `# Put the mount and the path of the secret in place of secret and my-app.\n${rule('secret', 'my-app')}`

function checkTargetPath(value: string): string | undefined {
  const [, path] = /^(?:data|metadata)(?:\/(.*))?$/.exec(value) ?? []
  if (path === undefined) return checkPath(value)
  return `begins with a word of the API, which Coffer adds itself: enter ${path}.`
}

const isAppRole = ({ method }: { readonly method?: string }) => method === 'approle'

export const vaultKv: Provider = {
  slug: 'vault-kv',
  name: 'HashiCorp Vault and OpenBao',
  website: 'https://developer.hashicorp.com/vault',
  docs: 'https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2',
  glyph: { text: 'V', colour: '#1f1f1f' },
  notes: [
    'All keys go into one path of a KV store of version 2. Keys of others in the path stay untouched.',
    'Each push with changes creates one version. If somebody else writes at the same time, the push is refused and retried.',
    'Deleting the last key leaves an empty version. The path and its history are never deleted.',
    'Coffer reads the path and writes the whole of it back with its own keys changed, as the version after the one that it read. If somebody deletes the path between these two calls, its other keys come back.',
    'A path holds 1 MiB on integrated storage and 512 KiB on Consul.',
    'The address must be the active server: redirects of a standby are not followed.',
  ],
  capabilities: { read: 'value', bulk: 1_000, mixes: true, guard: 'version', defaultMode: 'per-key' },
  limits: {
    name: /^\P{Cc}+$/u,
    nameHint: 'any text on one line',
    valueMaxBytes: 1024 * 1024,
    allowsEmpty: true,
    totalMaxBytes: 1024 * 1024,
    rate: { perSecond: 20, concurrency: 2 },
  },
  auth: [
    {
      kind: 'text',
      id: 'address',
      label: 'Address',
      placeholder: 'https://vault.example.com:8200',
      isAddress: true,
      check: checkOrigin,
    },
    {
      kind: 'text',
      id: 'namespace',
      label: 'Namespace',
      description: 'Only if the server has namespaces.',
      isOptional: true,
      check: checkPath,
    },
    {
      kind: 'copy',
      id: 'policy',
      label: 'Policy',
      description: 'The token or role needs only this and the policy "default".',
      language: 'text',
      text: ({ target }) => policy(target),
    },
    {
      kind: 'select',
      id: 'method',
      label: 'Log in with',
      defaultValue: 'token',
      options: [
        { label: 'Token', value: 'token' },
        { label: 'AppRole', value: 'approle' },
      ],
    },
    { kind: 'password', id: 'token', label: 'Token', placeholder: 'hvs.…', when: (values) => !isAppRole(values) },
    { kind: 'text', id: 'roleId', label: 'Role ID', when: isAppRole },
    { kind: 'password', id: 'secretId', label: 'Secret ID', when: isAppRole },
    {
      kind: 'text',
      id: 'approleMount',
      label: 'Mount of AppRole',
      defaultValue: 'approle',
      isOptional: true,
      when: isAppRole,
      check: checkPath,
    },
  ],
  verify: verifyVault,
  target: [
    { kind: 'select', id: 'mount', label: 'Mount', placeholder: 'secret', options: listMounts, check: checkPath },
    {
      kind: 'text',
      id: 'path',
      label: 'Path',
      placeholder: 'my-app/production',
      after: ['mount'],
      check: checkTargetPath,
    },
  ],
  options: [],
  describeTarget: ({ mount = '', path = '' }, { address = '', namespace = '' }) => ({
    label: `${mount}/${path}`,
    fingerprint: JSON.stringify([originOf(address), namespace, `${mount}/${path}`]),
  }),
  normaliseName: (name) => name,
  connect(connection) {
    const vault: Vault = { ...openVault(connection), seen: undefined }
    return { list: () => list(vault), apply: (ops) => apply(vault, ops) }
  },
}
