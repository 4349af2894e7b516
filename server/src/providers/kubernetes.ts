/**
 * Keys of one Secret, by server-side apply: the cluster records which field manager owns each key, and each sync is its
 * own manager. An apply replaces everything its manager owns, so each apply repeats our unchanged keys as just read. If
 * somebody has changed one since, they own it and the apply is refused.
 *
 * Keys of others are taken over by force only if the op allows it. A forced apply names the version of the Secret that
 * was read, so it never overwrites an edit that the plan did not see.
 */
import { readCertificates } from './certificate-text.ts'
import { VendorFault } from './fault.ts'
import { findMissing, kubernetesAuth, kubernetesOptions, kubernetesTarget } from './kubernetes-form.ts'
import { unlessForbidden } from './offered-options.ts'
import { originOf } from './origin.ts'
import type { Connection, Op, OpResult, Option, Provider, Remote, RemoteItem, Values } from './provider.ts'
import { giveUp } from './retry.ts'
import { faultOf, type VendorRequest, type VendorResponse } from './vendor-http.ts'
import { at, entriesAt, listAt, maybeTextAt, textAt } from './vendor-json.ts'

/** Values stay in base64, because values of others may be binary. */
type Live = {
  readonly exists: boolean
  readonly isImmutable: boolean
  readonly version: string | undefined
  readonly type: string | undefined
  readonly data: ReadonlyMap<string, string>
  /** Keys owned by this sync. */
  readonly owned: ReadonlySet<string>
  /** Keys owned by another field manager, alone or together with this sync. */
  readonly ofOthers: ReadonlySet<string>
  /** The subset of these that another manager declares by apply. */
  readonly declared: ReadonlySet<string>
  readonly ownsType: boolean
}

const maxAttempts = 5

const managerOf = ({ syncId }: Connection) => `coffer-${syncId}`
const namespaceOf = ({ target }: Connection) => `/api/v1/namespaces/${encodeURIComponent(target.namespace ?? '')}`
const secretOf = (connection: Connection) =>
  `${namespaceOf(connection)}/secrets/${encodeURIComponent(connection.target.secret ?? '')}`
const encode = (value: string) => Buffer.from(value, 'utf8').toString('base64')
const decode = (data: string) => Buffer.from(data, 'base64').toString('utf8')
const takesBack = ({ onConflict }: Values) => onConflict === 'force'

function send(connection: Connection, path: string, request: Omit<VendorRequest, 'url'>): Promise<VendorResponse> {
  const { server = '', token, ca } = connection.credential
  const certificates = ca === undefined || ca === '' ? undefined : readCertificates(ca)
  return connection.http.send({
    ...request,
    url: `${originOf(server)}${path}`,
    headers: { authorization: `Bearer ${token}`, ...request.headers },
    ...(certificates !== undefined && { ca: certificates }),
  })
}

async function verify(connection: Connection): Promise<string> {
  const review = await send(connection, '/apis/authentication.k8s.io/v1/selfsubjectreviews', {
    method: 'POST',
    json: { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' },
    accept: [403, 404],
  })
  if (review.status === 201) return textAt(review.json, 'status', 'userInfo', 'username')
  // Clusters before 1.28 cannot name the caller. A wrong token is refused here too.
  const { json } = await send(connection, '/version', { method: 'GET' })
  return `Kubernetes ${textAt(json, 'gitVersion')}`
}

async function listNamespaces(connection: Connection): Promise<Option[]> {
  const options: Option[] = []
  let next: string | undefined = ''
  while (next !== undefined) {
    const page = next === '' ? '' : `&continue=${encodeURIComponent(next)}`
    const { json } = await send(connection, `/api/v1/namespaces?limit=500${page}`, { method: 'GET' })
    for (const item of listAt(json, 'items')) {
      const name = textAt(item, 'metadata', 'name')
      options.push({ label: name, value: name })
    }
    next = maybeTextAt(json, 'metadata', 'continue') || undefined
  }
  return options
}

const absent: Live = {
  exists: false,
  isImmutable: false,
  version: undefined,
  type: undefined,
  data: new Map(),
  owned: new Set(),
  ofOthers: new Set(),
  declared: new Set(),
  ownsType: false,
}

async function read(connection: Connection): Promise<Live> {
  const { status, json } = await send(connection, secretOf(connection), { method: 'GET', accept: [404] })
  if (status === 404) {
    await requireNamespace(connection)
    return absent
  }
  requireSecret(json)
  const data = new Map<string, string>()
  for (const [name, value] of entriesAt({ data: at(json, 'data') ?? {} }, 'data')) data.set(name, String(value))
  const managers = listAt({ list: at(json, 'metadata', 'managedFields') ?? [] }, 'list').map((entry) => ({
    isApply: at(entry, 'operation') === 'Apply',
    isOurs: at(entry, 'manager') === managerOf(connection) && at(entry, 'operation') === 'Apply',
    fields: at(entry, 'fieldsV1'),
  }))
  const keysOf = (chosen: typeof managers) => {
    const fields = chosen.flatMap((manager) => Object.keys(at(manager.fields, 'f:data') ?? {}))
    return new Set(fields.filter((key) => key.startsWith('f:')).map((key) => key.slice(2)))
  }
  return {
    exists: true,
    isImmutable: at(json, 'immutable') === true,
    version: maybeTextAt(json, 'metadata', 'resourceVersion'),
    type: maybeTextAt(json, 'type'),
    data,
    owned: keysOf(managers.filter(({ isOurs }) => isOurs)),
    ofOthers: keysOf(managers.filter(({ isOurs }) => !isOurs)),
    declared: keysOf(managers.filter(({ isOurs, isApply }) => isApply && !isOurs)),
    ownsType: managers.some(({ isOurs, fields }) => isOurs && at(fields, 'f:type') !== undefined),
  }
}

/** A proxy's page may have status 200 too: read as a Secret without keys, it would release all that we own. */
const requireSecret = (json: unknown) => textAt(json, 'metadata', 'name')

/** A missing Secret is fine, a missing namespace is not. Some tokens may not read namespaces. */
async function requireNamespace(connection: Connection): Promise<void> {
  await send(connection, namespaceOf(connection), { method: 'GET', accept: [403] })
}

type Plan = {
  readonly data: ReadonlyMap<string, string>
  readonly isChange: boolean
  /** Whether the changes include a key of others. */
  readonly force: boolean
  /** Keys to delete that an apply cannot remove, because it does not own them. */
  readonly removals: readonly string[]
  readonly results: OpResult[]
}

/** Plans everything that this sync should own afterwards. */
function plan(live: Live, ops: readonly Op[], takesBack: boolean): Plan {
  const { data, owned, ofOthers, declared } = live
  const planned = new Map([...data].filter(([name]) => owned.has(name)))
  const removals: string[] = []
  const results: OpResult[] = []
  let [isChange, force] = [false, false]
  for (const op of ops) {
    const { name } = op
    const found = data.get(name)
    const value = op.kind === 'delete' ? undefined : encode(op.value)
    const isShared = value !== undefined && ofOthers.has(name)
    if (found !== undefined && found !== value && (isShared || !owned.has(name))) {
      if (!mayReplace(live, op, found, takesBack)) {
        results.push({ name, fault: conflict() })
        continue
      }
      if (value === undefined) {
        if (!declared.has(name)) removals.push(name)
        results.push(declared.has(name) ? { name, ...stays } : { name })
        continue
      }
      force = true
    }
    results.push({ name })
    if (value !== planned.get(name)) isChange = true
    if (value === undefined) planned.delete(name)
    else planned.set(name, value)
  }
  return { data: planned, isChange, force, removals, results }
}

function mayReplace({ owned }: Live, op: Op, found: string, takesBack: boolean): boolean {
  if (op.kind === 'create') return false
  if (op.kind === 'update' && (takesBack || op.takesOver)) return true
  // Somebody edited our key and put the value back: they are the recorded owner now, but the value is still ours.
  return !owned.has(op.name) && op.isOurValue?.(decode(found)) === true
}

const stays = { isKept: true, note: 'The key stays, because others own it too.' } as const
const immutable = () =>
  new VendorFault('gone', 'The Secret is immutable.', {
    remedy: 'Delete it in the cluster, so that the next push creates it anew, or choose another Secret.',
  })
const conflict = () => new VendorFault('conflict', 'The key belongs to another field manager of the Secret.')

function sendApply(connection: Connection, live: Live, { data, force }: Plan): Promise<VendorResponse> {
  const { target } = connection
  // A type that we set is ours and must be repeated too; a type that others set stays as it is.
  const type = live.exists ? (live.ownsType ? live.type : undefined) : target.type
  const query = new URLSearchParams({ fieldManager: managerOf(connection), ...(force && { force: 'true' }) })
  return send(connection, `${secretOf(connection)}?${query}`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/apply-patch+yaml' },
    json: {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: {
        name: target.secret,
        namespace: target.namespace,
        ...(force && { resourceVersion: live.version }),
      },
      ...(type !== undefined && { type }),
      ...(data.size > 0 && { data: Object.fromEntries(data) }),
    },
    accept: [409, 422],
  })
}

/** The keys that a refusal calls invalid. */
function keysIn({ json }: VendorResponse): Set<string> {
  const causes = listAt({ list: at(json, 'details', 'causes') ?? [] }, 'list')
  return new Set(causes.flatMap((cause) => /^data\[(.+)\]$/s.exec(maybeTextAt(cause, 'field') ?? '')?.[1] ?? []))
}

/** A merge patch deletes keys regardless of their owner, so it names the exact version of the Secret. */
function sendRemoval(connection: Connection, version: string | undefined, keys: readonly string[]) {
  const query = new URLSearchParams({ fieldManager: managerOf(connection) })
  return send(connection, `${secretOf(connection)}?${query}`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/merge-patch+json' },
    json: { metadata: { resourceVersion: version }, data: Object.fromEntries(keys.map((key) => [key, null])) },
    accept: [404, 409],
  })
}

async function* apply(connection: Connection, ops: readonly Op[]): AsyncIterable<OpResult> {
  let left = ops
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const live = await read(connection)
    const planned = plan(live, left, takesBack(connection.options))
    const { isChange, removals, results } = planned
    if (live.isImmutable && (isChange || removals.length > 0)) throw immutable()
    const response = isChange ? await sendApply(connection, live, planned) : undefined
    if (response === undefined || response.status < 300) {
      if (response !== undefined) requireSecret(response.json)
      const version = response === undefined ? live.version : maybeTextAt(response.json, 'metadata', 'resourceVersion')
      const removed = removals.length > 0 ? await sendRemoval(connection, version, removals) : undefined
      if (removed !== undefined && removed.status >= 300) continue
      return yield* noted(results, left, response)
    }

    // The Secret has changed since it was read: read and plan again.
    if (response.status === 409) continue
    const keys = keysIn(response)
    // The refusal concerns the whole Secret, or a required key that nobody pushes: retrying does not help.
    if (!left.some(({ name }) => keys.has(name))) throw faultOf(response, connection.now())
    // Nothing was written. Report each key that the refusal names, and retry without them.
    for (const { name } of left) if (keys.has(name)) yield { name, fault: faultOf(response, connection.now()) }
    left = left.filter(({ name }) => !keys.has(name))
  }
  throw giveUp(new VendorFault('transient', 'Others changed the Secret repeatedly during the write.'))
}

/** A key with another owner stays in the Secret when we release it. */
function noted(results: readonly OpResult[], ops: readonly Op[], response: VendorResponse | undefined): OpResult[] {
  const deleted = new Set(ops.filter(({ kind }) => kind === 'delete').map(({ name }) => name))
  const isLeft = (name: string) => deleted.has(name) && at(response?.json, 'data', name) !== undefined
  return results.map((result) => ('fault' in result || !isLeft(result.name) ? result : { ...result, ...stays }))
}

function connect(connection: Connection): Remote {
  let seen = absent
  return {
    async *list(): AsyncIterable<RemoteItem> {
      seen = await read(connection)
      for (const [name, value] of seen.data) yield { name, value: decode(value), isOurs: seen.owned.has(name) }
    },
    findProblems(names) {
      const ofOthers = seen.data.keys().filter((key) => !seen.owned.has(key))
      return findMissing(seen.type ?? connection.target.type ?? '', names.union(new Set(ofOthers)))
    },
    apply: (ops) => apply(connection, ops),
  }
}

export const kubernetes: Provider = {
  slug: 'kubernetes',
  name: 'Kubernetes',
  website: 'https://kubernetes.io',
  docs: 'https://kubernetes.io/docs/reference/using-api/server-side-apply/',
  glyph: { text: 'K8s', colour: '#2a56c6' },
  notes: [
    'Keys go into one Secret by server-side apply (Kubernetes 1.22 or later). Keys of others in the Secret stay untouched.',
    'A key of this sync that somebody edits in the cluster is reported and left alone, unless onConflict or onExisting allows overwriting it. If its value is restored, it belongs to the sync again.',
    'Pods get new values in mounted files after about a minute, and in environment variables only after a restart.',
    'Deleting the last key leaves an empty Secret. The Secret itself is never deleted.',
  ],
  capabilities: {
    read: 'value',
    bulk: 1_000,
    mixes: true,
    ownerMark: 'field manager',
    marksUpdates: true,
    guard: 'mark',
    defaultMode: 'per-key',
  },
  limits: {
    name: /^(?!\.$)(?!\.\.)[-._a-zA-Z0-9]+$/,
    nameHint: 'letters, digits, hyphens, dots and underscores, not starting with two dots',
    nameMax: 253,
    valueMaxBytes: 1024 * 1024,
    allowsEmpty: true,
    totalMaxBytes: 1024 * 1024,
    rate: { perSecond: 10, concurrency: 2 },
  },
  auth: kubernetesAuth,
  verify,
  target: kubernetesTarget((connection) => unlessForbidden(listNamespaces(connection))),
  options: kubernetesOptions,
  describeTarget: ({ namespace = '', secret = '' }, { server = '' }) => ({
    label: `${namespace}/${secret}`,
    fingerprint: JSON.stringify([originOf(server), namespace, secret]),
  }),
  normaliseName: (name) => name,
  takesBack,
  connect,
}
