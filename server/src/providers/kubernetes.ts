/**
 * Keys of one Secret, by server-side apply: the cluster itself keeps who owns which key, under a name that only this
 * sync uses. An apply replaces all that its manager owns, so each one repeats the keys of ours that do not change, as
 * they were read a moment before. If somebody else has changed one since, it is theirs now and the apply is refused.
 */
import { readCertificates } from './certificate-text.ts'
import { VendorFault } from './fault.ts'
import { unlessForbidden } from './offered-options.ts'
import { checkOrigin, originOf } from './origin.ts'
import { giveUp } from './patience.ts'
import type { Connection, Op, OpResult, Option, Provider, RemoteItem } from './provider.ts'
import { faultOf, type VendorRequest, type VendorResponse } from './vendor-http.ts'
import { at, entriesAt, listAt, maybeTextAt, textAt } from './vendor-json.ts'

/** Values stay in base64: those of others may be no text at all. */
type Live = {
  readonly exists: boolean
  readonly type: string | undefined
  readonly data: ReadonlyMap<string, string>
  /** Keys that this sync owns. */
  readonly owned: ReadonlySet<string>
  readonly ownsType: boolean
}

const maxAttempts = 5
const isLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/
const isSubdomain = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

const managerOf = ({ syncId }: Connection) => `coffer-${syncId}`
const namespaceOf = ({ target }: Connection) => `/api/v1/namespaces/${encodeURIComponent(target.namespace ?? '')}`
const secretOf = (connection: Connection) =>
  `${namespaceOf(connection)}/secrets/${encodeURIComponent(connection.target.secret ?? '')}`
const encode = (value: string) => Buffer.from(value, 'utf8').toString('base64')

function send(connection: Connection, path: string, request: Omit<VendorRequest, 'url'>): Promise<VendorResponse> {
  const { server, token, ca } = connection.credential
  const certificates = ca === undefined || ca === '' ? undefined : readCertificates(ca)
  return connection.http.send({
    ...request,
    url: `${server}${path}`,
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
  // Before 1.28 a cluster cannot say who one is. A wrong token is refused here, too.
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

async function read(connection: Connection): Promise<Live> {
  const { status, json } = await send(connection, secretOf(connection), { method: 'GET', accept: [404] })
  if (status === 404) {
    await requireNamespace(connection)
    return { exists: false, type: undefined, data: new Map(), owned: new Set(), ownsType: false }
  }
  const data = new Map<string, string>()
  for (const [name, value] of entriesAt({ data: at(json, 'data') ?? {} }, 'data')) data.set(name, String(value))
  const fields = listAt({ list: at(json, 'metadata', 'managedFields') ?? [] }, 'list')
    .filter((entry) => at(entry, 'manager') === managerOf(connection) && at(entry, 'operation') === 'Apply')
    .map((entry) => at(entry, 'fieldsV1'))
  const owned = fields.flatMap((set) => Object.keys(at(set, 'f:data') ?? {}))
  return {
    exists: true,
    type: maybeTextAt(json, 'type'),
    data,
    owned: new Set(owned.filter((key) => key.startsWith('f:')).map((key) => key.slice(2))),
    ownsType: fields.some((set) => at(set, 'f:type') !== undefined),
  }
}

/** A Secret that is not there yet is none the worse; a namespace that is not there is. Not every token may tell. */
async function requireNamespace(connection: Connection): Promise<void> {
  await send(connection, namespaceOf(connection), { method: 'GET', accept: [403] })
}

type Plan = { readonly data: ReadonlyMap<string, string>; readonly isChange: boolean; readonly results: OpResult[] }

/** All that is to be ours afterwards. */
function plan({ data, owned }: Live, ops: readonly Op[]): Plan {
  const planned = new Map([...data].filter(([name]) => owned.has(name)))
  const results: OpResult[] = []
  let isChange = false
  for (const op of ops) {
    const { name } = op
    const value = op.kind === 'delete' ? undefined : encode(op.value)
    // Whose key a value would replace is for the cluster to say; a key that is not ours an apply cannot remove.
    const isTheirs = value === undefined && data.has(name) && !owned.has(name)
    results.push(isTheirs ? { name, fault: conflict() } : { name })
    if (isTheirs) continue
    if (value !== planned.get(name)) isChange = true
    if (value === undefined) planned.delete(name)
    else planned.set(name, value)
  }
  return { data: planned, isChange, results }
}

const conflict = () => new VendorFault('conflict', 'The key belongs to another field manager of the Secret.')

function sendApply(connection: Connection, live: Live, data: Plan['data'], force: boolean): Promise<VendorResponse> {
  const { target } = connection
  // A type that we have set is ours and has to be repeated, too; of a Secret that is there already it stays as it is.
  const type = live.exists ? (live.ownsType ? live.type : undefined) : target.type
  const query = new URLSearchParams({ fieldManager: managerOf(connection), ...(force && { force: 'true' }) })
  return send(connection, `${secretOf(connection)}?${query}`, {
    method: 'PATCH',
    headers: { 'content-type': 'application/apply-patch+yaml' },
    json: {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: target.secret, namespace: target.namespace },
      ...(type !== undefined && { type }),
      ...(data.size > 0 && { data: Object.fromEntries(data) }),
    },
    accept: [409, 422],
  })
}

/** The keys that a refusal is about: `.data.KEY` where others own them, `data[KEY]` where they are not valid. */
function keysIn({ json }: VendorResponse): Set<string> {
  const causes = listAt({ list: at(json, 'details', 'causes') ?? [] }, 'list')
  const keys = causes.map((cause) => /^(?:\.data\.(.+)|data\[(.+)\])$/s.exec(maybeTextAt(cause, 'field') ?? ''))
  return new Set(keys.flatMap((match) => match?.[1] ?? match?.[2] ?? []))
}

async function* apply(connection: Connection, ops: readonly Op[]): AsyncIterable<OpResult> {
  const force = connection.options.onConflict === 'force'
  let left = ops
  for (let attempt = 1; attempt <= maxAttempts; attempt++) {
    const live = await read(connection)
    const { data, isChange, results } = plan(live, left)
    const response = isChange ? await sendApply(connection, live, data, force) : undefined
    if (response === undefined || response.status < 300) return yield* noted(results, left, response)

    const keys = keysIn(response)
    // About the Secret as a whole, or about a key that its type asks for and nobody pushes: no other try mends that.
    const isAboutOps = left.some(({ name }) => keys.has(name))
    if (!isAboutOps && response.status !== 409) throw faultOf(response, connection.now())
    // Nothing was done. A key that it names is a fault of its own; beside the ops, something changed since it was read.
    for (const { name } of left) if (keys.has(name)) yield { name, fault: faultOf(response, connection.now()) }
    left = left.filter(({ name }) => !keys.has(name))
  }
  throw giveUp(new VendorFault('transient', 'Others kept changing the Secret while it was to be written.'))
}

/** A key that others own as well, with the same value, stays when we let it go. */
function noted(results: readonly OpResult[], ops: readonly Op[], response: VendorResponse | undefined): OpResult[] {
  const deleted = new Set(ops.filter(({ kind }) => kind === 'delete').map(({ name }) => name))
  const isLeft = (name: string) => deleted.has(name) && at(response?.json, 'data', name) !== undefined
  return results.map((result) =>
    'fault' in result || !isLeft(result.name) ? result : { ...result, note: 'It stays, since others own it, too.' },
  )
}

async function* list(connection: Connection): AsyncIterable<RemoteItem> {
  const { data, owned } = await read(connection)
  for (const [name, value] of data) {
    yield { name, value: Buffer.from(value, 'base64').toString('utf8'), isOurs: owned.has(name) }
  }
}

const commands = `NAMESPACE=shop
kubectl create serviceaccount coffer -n "$NAMESPACE"
kubectl create role coffer -n "$NAMESPACE" --verb=get,create,patch --resource=secrets
kubectl create rolebinding coffer -n "$NAMESPACE" --role=coffer --serviceaccount="$NAMESPACE:coffer"
# The address, the CA, and a token; many clusters give it for less time than is asked.
kubectl config view --raw --minify -o jsonpath='{.clusters[0].cluster.server}{"\\n"}'
kubectl config view --raw --minify -o jsonpath='{.clusters[0].cluster.certificate-authority-data}{"\\n"}'
kubectl create token coffer -n "$NAMESPACE" --duration=8760h`

const types = ['Opaque', 'kubernetes.io/tls', 'kubernetes.io/basic-auth', 'kubernetes.io/ssh-auth']

export const kubernetes: Provider = {
  slug: 'kubernetes',
  name: 'Kubernetes',
  website: 'https://kubernetes.io',
  docs: 'https://kubernetes.io/docs/reference/using-api/server-side-apply/',
  glyph: { text: 'K8s', colour: '#2a56c6' },
  notes: [
    'Keys go into one Secret by server-side apply (Kubernetes 1.22 or later); keys of others in it stay as they are.',
    'A key that somebody else changes in the cluster is theirs from then on: pushing it again is a conflict, unless the sync may take keys over.',
    'Pods see new values in mounted files after about a minute, in environment variables only after a restart.',
    'Removing the last key leaves an empty Secret; the Secret itself is never deleted.',
  ],
  capabilities: { read: 'value', bulk: 1_000, mixes: true, ownerMark: 'field manager', defaultMode: 'per-key' },
  limits: {
    name: /^(?!\.$)(?!\.\.)[-._a-zA-Z0-9]+$/,
    nameHint: 'letters, digits, hyphens, dots and underscores, not starting with two dots',
    nameMax: 253,
    valueMaxBytes: 1024 * 1024,
    allowsEmpty: true,
    totalMaxBytes: 1024 * 1024,
    rate: { perSecond: 10, concurrency: 2 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'commands',
      label: 'Make a service account',
      description:
        'It may read and change Secrets of one namespace. A file that kubectl uses with a plug-in holds no token.',
      language: 'bash',
      text: () => commands,
    },
    {
      kind: 'text',
      id: 'server',
      label: 'API server',
      placeholder: 'https://cluster.example.com:6443',
      isAddress: true,
      check: checkOrigin,
    },
    {
      kind: 'text',
      id: 'ca',
      label: 'CA certificate',
      description:
        'As certificate-authority-data has it, or PEM. Not needed where the server has a public certificate.',
      isOptional: true,
      check: (value) =>
        readCertificates(value) === undefined ? 'is not a certificate in PEM, nor the base64 of one.' : undefined,
    },
    {
      kind: 'password',
      id: 'token',
      label: 'Token of the service account',
      check: (value) =>
        /^[\x21-\x7e]+$/.test(value) ? undefined : 'is not a token: it has spaces or line ends in it.',
    },
  ],
  verify,
  target: [
    {
      kind: 'select',
      id: 'namespace',
      label: 'Namespace',
      options: (connection) => unlessForbidden(listNamespaces(connection)),
      check: (value) => (isLabel.test(value) ? undefined : 'is not the name of a namespace.'),
    },
    {
      kind: 'text',
      id: 'secret',
      label: 'Secret',
      description: 'It is made if it is not there.',
      placeholder: 'my-app',
      check: (value) =>
        isSubdomain.test(value) ? undefined : 'is not the name of a Secret: small letters, digits, hyphens and dots.',
    },
    {
      kind: 'select',
      id: 'type',
      label: 'Type of a new Secret',
      description: 'A Secret that is there already keeps its own.',
      defaultValue: 'Opaque',
      options: types.map((type) => ({ label: type, value: type })),
    },
  ],
  options: [
    {
      kind: 'select',
      id: 'onConflict',
      label: 'Keys that somebody else owns',
      defaultValue: 'fail',
      options: [
        { label: 'Leave them and report it', value: 'fail' },
        { label: 'Take them over', value: 'force' },
      ],
    },
  ],
  describeTarget: ({ namespace = '', secret = '' }, { server = '' }) => ({
    label: `${namespace}/${secret}`,
    fingerprint: JSON.stringify([originOf(server), namespace, secret]),
  }),
  normaliseName: (name) => name,
  connect: (connection) => ({
    list: () => list(connection),
    apply: (ops) => apply(connection, ops),
  }),
}
