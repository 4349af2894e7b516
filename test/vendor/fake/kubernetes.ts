/**
 * An API server for the Secrets of one namespace. It tracks the owner of each key in managedFields, by apply and by
 * update, like a real server; driven by @kubernetes/client-node in kubernetes.test.ts.
 */
import { vendorCertificate } from '../certificate.ts'
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'

type Manager = { readonly manager: string; readonly operation: 'Apply' | 'Update'; fields: Set<string> }
type Secret = {
  readonly uid: string
  resourceVersion: number
  type: string
  data: Map<string, string>
  managers: Manager[]
  immutable: boolean
}
type Body = {
  apiVersion?: string
  kind?: string
  metadata?: { name?: string; namespace?: string; managedFields?: unknown; resourceVersion?: string }
  type?: string
  data?: Record<string, string | null>
}

const namespace = 'shop'
const name = 'shop-secrets'
const token = 'fake.service-account.token'
const typeField = 'type'
const textEntries = ({ data = {} }: Body) =>
  Object.entries(data).flatMap(([key, value]): [string, string][] => (value === null ? [] : [[key, value]]))
const keyField = (key: string) => `data/${key}`

/** Keys that a Secret of each type must have. */
const requiredKeys: Readonly<Record<string, readonly string[]>> = {
  'kubernetes.io/tls': ['tls.crt', 'tls.key'],
  'kubernetes.io/ssh-auth': ['ssh-privatekey'],
  'kubernetes.io/basic-auth': ['username', 'password'],
}

export type FakeKubernetes = Fake & {
  secret(): Secret | undefined
  /** An apply by another field manager. */
  applyAs(manager: string, data: Record<string, string>): FakeAnswer
  /** Removes all field managers, as for keys older than managedFields. */
  forgetManagers(): void
  setImmutable(): void
}

/** `mayGet`: false for a role without the right to read Secrets. */
export function fakeKubernetes({ knowsWhoami = true, mayListNamespaces = true, mayGet = true } = {}): FakeKubernetes {
  const violations: string[] = []
  let secret: Secret | undefined
  let exists = true
  let versions = 100

  const status = (code: number, reason: string, message: string, details?: unknown): FakeAnswer => ({
    status: code,
    body: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, details, code },
  })
  const notFound = (kind: string, missing: string) =>
    status(404, 'NotFound', `${kind} "${missing}" not found`, { name: missing, kind })
  const invalid = (causes: { reason: string; message: string; field: string }[]) => {
    const texts = causes.map(({ field, message }) => `${field}: ${message}`).join(', ')
    return status(422, 'Invalid', `Secret "${name}" is invalid: ${texts}`, { name, kind: 'Secret', causes })
  }

  function answer(request: FakeRequest): FakeAnswer {
    const { method, path } = request
    if (request.headers.authorization !== `Bearer ${token}`) return status(401, 'Unauthorized', 'Unauthorized')
    if (path === '/version') return { status: 200, body: { major: '1', minor: '33', gitVersion: 'v1.33.1' } }
    if (path === '/apis/authentication.k8s.io/v1/selfsubjectreviews') return whoami(request)
    if (path === '/api/v1/namespaces') return listNamespaces(request)
    if (path === `/api/v1/namespaces/${namespace}`) {
      return exists ? { status: 200, body: namespaceBody(namespace) } : notFound('namespaces', namespace)
    }
    if (path === `/api/v1/namespaces/${namespace}/secrets` && method === 'POST') return createSecret(request)
    if (path !== `/api/v1/namespaces/${namespace}/secrets/${name}` || (method === 'GET' && !mayGet)) {
      return status(
        403,
        'Forbidden',
        `secrets is forbidden: User "ops" cannot ${method.toLowerCase()} resource "secrets"`,
      )
    }
    if (method === 'PATCH') return patchSecret(request)
    if (secret === undefined) return notFound('secrets', name)
    if (method === 'GET') return { status: 200, body: secretBody(secret) }
    if (method === 'PUT') return replaceSecret(secret, request)
    if (method === 'DELETE') {
      secret = undefined
      return { status: 200, body: { kind: 'Status', apiVersion: 'v1', status: 'Success' } }
    }
    return status(405, 'MethodNotAllowed', `${method} is not supported`)
  }

  function whoami({ method, json }: FakeRequest): FakeAnswer {
    if (!knowsWhoami) return status(404, 'NotFound', 'the server could not find the requested resource')
    if (method !== 'POST' || (json as Body)?.kind !== 'SelfSubjectReview') violations.push('not a SelfSubjectReview')
    const userInfo = { username: `system:serviceaccount:${namespace}:coffer`, groups: ['system:authenticated'] }
    return { status: 201, body: { ...(json as Body), status: { userInfo } } }
  }

  const namespaceBody = (text: string) => ({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: text } })

  function listNamespaces({ query }: FakeRequest): FakeAnswer {
    if (!mayListNamespaces) return status(403, 'Forbidden', 'namespaces is forbidden: User "ops" cannot list resource')
    const names = ['default', namespace, 'kube-system']
    const size = Math.min(fake.pageSize ?? 500, Number(query.get('limit') ?? 500))
    const from = Number(query.get('continue') ?? 0)
    const next = from + size < names.length ? String(from + size) : ''
    const items = names.slice(from, from + size).map(namespaceBody)
    return { status: 200, body: { kind: 'NamespaceList', apiVersion: 'v1', metadata: { continue: next }, items } }
  }

  function secretBody({ uid, resourceVersion, type, data, managers, immutable }: Secret) {
    const managedFields = managers.map(({ manager, operation, fields }) => {
      const keys = [...fields].filter((field) => field !== typeField).map((field) => field.slice('data/'.length))
      const data = Object.fromEntries(keys.map((key) => [`f:${key}`, {}]))
      const fieldsV1 = {
        ...(keys.length > 0 && { 'f:data': { ...(operation === 'Update' && { '.': {} }), ...data } }),
        ...(fields.has(typeField) && { 'f:type': {} }),
      }
      return { manager, operation, apiVersion: 'v1', time: '2026-01-01T00:00:00Z', fieldsType: 'FieldsV1', fieldsV1 }
    })
    const metadata = { name, namespace, uid, resourceVersion: String(resourceVersion), managedFields }
    return {
      kind: 'Secret',
      apiVersion: 'v1',
      metadata,
      ...(data.size > 0 && { data: Object.fromEntries(data) }),
      type,
      ...(immutable && { immutable }),
    }
  }

  /** Validation of every write. */
  function refusalOf(body: Body): FakeAnswer | undefined {
    const entries = textEntries(body)
    const bad = entries.filter(([key]) => !/^[-._a-zA-Z0-9]{1,253}$/.test(key) || fake.refusedNames.has(key))
    if (bad.length > 0) {
      return invalid(
        bad.map(([key, value]) => ({
          reason: 'FieldValueInvalid',
          message: `Invalid value: "${key}": a valid config key must consist of alphanumeric characters (${Buffer.from(value, 'base64')})`,
          field: `data[${key}]`,
        })),
      )
    }
    for (const [key, value] of entries) {
      const isBase64 = typeof value === 'string' && Buffer.from(value, 'base64').toString('base64') === value
      if (!isBase64) return status(400, 'BadRequest', `illegal base64 data at input byte 4: ${key}`)
    }
    const bytes = entries.reduce((sum, [, value]) => sum + Buffer.from(value, 'base64').length, 0)
    if (bytes > 1_048_576) {
      return invalid([
        { reason: 'FieldValueTooLong', message: 'Too long: must have at most 1048576 bytes', field: 'data' },
      ])
    }
    return undefined
  }

  function patchSecret(request: FakeRequest): FakeAnswer {
    const { headers, query } = request
    if (headers['content-type'] === 'application/merge-patch+json') return mergeSecret(request)
    if (headers['content-type'] !== 'application/apply-patch+yaml') {
      violations.push(`a patch of ${headers['content-type']}`)
      return status(415, 'UnsupportedMediaType', 'the body of the request was in an unknown format')
    }
    const body = request.json as Body
    const manager = query.get('fieldManager')
    if (!manager || manager.length > 128) return status(400, 'BadRequest', 'fieldManager: Required value')
    if (body.apiVersion !== 'v1' || body.kind !== 'Secret' || body.metadata?.managedFields !== undefined) {
      violations.push('not the apply of a Secret')
    }
    if (body.metadata?.name !== name || (body.metadata.namespace ?? namespace) !== namespace) {
      return status(400, 'BadRequest', 'the name of the object does not match the name on the URL')
    }
    return applySecret(manager, body, query.get('force') === 'true')
  }

  function applySecret(manager: string, body: Body, force: boolean): FakeAnswer {
    if (!exists) return notFound('namespaces', namespace)
    const refusal = refusalOf(body)
    if (refusal !== undefined) return refusal
    const isNew = secret === undefined
    const next: Secret = secret ?? fresh(body.type ?? 'Opaque')
    if (!isNew && next.managers.length === 0) {
      const fields = new Set([...[...next.data.keys()].map(keyField), typeField])
      next.managers = [{ manager: 'before-first-apply', operation: 'Update', fields }]
    }
    if (!isNew && isStale(next, body)) return modified()
    const wanted = new Map(textEntries(body))
    const fields = new Set([...wanted.keys()].map(keyField))
    if (body.type !== undefined) fields.add(typeField)
    const others = next.managers.filter((entry) => entry.manager !== manager || entry.operation !== 'Apply')
    const before = next.managers.find((entry) => !others.includes(entry))?.fields ?? new Set<string>()

    const changed = [...wanted].filter(([key, value]) => next.data.get(key) !== value).map(([key]) => keyField(key))
    const clashes = changed.flatMap((field) =>
      others.filter((entry) => entry.fields.has(field)).map((owner) => ({ field, owner })),
    )
    if (clashes.length > 0 && !force) return clashOf(clashes)
    const dropped = [...before].filter(
      (field) => !fields.has(field) && !others.some((other) => other.fields.has(field)),
    )
    const typeAfter = body.type ?? (dropped.includes(typeField) ? 'Opaque' : next.type)
    if (typeAfter !== next.type) {
      return invalid([{ reason: 'FieldValueInvalid', message: 'Invalid value: field is immutable', field: 'type' }])
    }
    if (next.immutable && changed.length + dropped.length > 0) {
      return invalid([
        {
          reason: 'FieldValueForbidden',
          message: 'Forbidden: field is immutable when `immutable` is set',
          field: 'data',
        },
      ])
    }

    const stays = (key: string) => wanted.has(key) || (next.data.has(key) && !dropped.includes(keyField(key)))
    const required = requiredKeys[next.type] ?? []
    const missing = required.filter((key) => !stays(key))
    // basic-auth needs only one of username and password.
    const mostMissing = next.type === 'kubernetes.io/basic-auth' ? required.length - 1 : 0
    if (missing.length > mostMissing) {
      return invalid(
        missing.map((key) => ({ reason: 'FieldValueRequired', message: 'Required value', field: `data[${key}]` })),
      )
    }

    for (const { field, owner } of clashes) owner.fields.delete(field)
    for (const [key, value] of wanted) next.data.set(key, value)
    for (const field of dropped) if (field !== typeField) next.data.delete(field.slice('data/'.length))
    next.managers = [...others, { manager, operation: 'Apply' as const, fields }].filter(
      (entry) => entry.fields.size > 0,
    )
    next.resourceVersion = ++versions
    secret = next
    return { status: isNew ? 201 : 200, body: secretBody(next) }
  }

  const isStale = ({ resourceVersion }: Secret, { metadata }: Body) =>
    metadata?.resourceVersion !== undefined && metadata.resourceVersion !== String(resourceVersion)

  const modified = () =>
    status(
      409,
      'Conflict',
      `Operation cannot be fulfilled on secrets "${name}": the object has been modified; please apply your changes to the latest version and try again`,
    )

  /** A null removes the key, regardless of its owner. */
  function mergeSecret({ json, query }: FakeRequest): FakeAnswer {
    if (secret === undefined) return notFound('secrets', name)
    const body = json as Body
    if (isStale(secret, body)) return modified()
    const refusal = refusalOf(body)
    if (refusal !== undefined) return refusal
    const data = new Map([...secret.data, ...textEntries(body)])
    for (const [key, value] of Object.entries(body.data ?? {})) if (value === null) data.delete(key)
    updateAs(query.get('fieldManager') ?? 'client', secret, data)
    return { status: 200, body: secretBody(secret) }
  }

  function clashOf(clashes: { field: string; owner: Manager }[]): FakeAnswer {
    const causes = clashes.map(({ field, owner }) => ({
      reason: 'FieldManagerConflict',
      message: `conflict with "${owner.manager}" using v1`,
      field: `.${field.replace('/', '.')}`,
    }))
    const texts = causes.map(({ message, field }) => `${message}: ${field}`).join(', ')
    return status(409, 'Conflict', `Apply failed with ${clashes.length} conflict: ${texts}`, { causes })
  }

  const fresh = (type: string): Secret => ({
    uid: `fake-uid-${++versions}`,
    resourceVersion: versions,
    type,
    data: new Map(),
    managers: [],
    immutable: false,
  })

  /** A change without apply takes the key away from all other managers. */
  function updateAs(manager: string, target: Secret, data: ReadonlyMap<string, string>): void {
    const changed = [...data].filter(([key, value]) => target.data.get(key) !== value).map(([key]) => keyField(key))
    const gone = [...target.data.keys()].filter((key) => !data.has(key)).map(keyField)
    for (const entry of target.managers) for (const field of [...changed, ...gone]) entry.fields.delete(field)
    const own = target.managers.find((entry) => entry.manager === manager && entry.operation === 'Update')
    if (own === undefined) target.managers.push({ manager, operation: 'Update', fields: new Set(changed) })
    else for (const field of changed) own.fields.add(field)
    target.managers = target.managers.filter((entry) => entry.fields.size > 0)
    target.data = new Map(data)
    target.resourceVersion = ++versions
  }

  function createSecret({ json, query }: FakeRequest): FakeAnswer {
    if (!exists) return notFound('namespaces', namespace)
    if (secret !== undefined) return status(409, 'AlreadyExists', `secrets "${name}" already exists`)
    const body = json as Body
    const refusal = refusalOf(body)
    if (refusal !== undefined) return refusal
    secret = fresh(body.type ?? 'Opaque')
    updateAs(query.get('fieldManager') ?? 'client', secret, new Map(textEntries(body)))
    return { status: 201, body: secretBody(secret) }
  }

  function replaceSecret(target: Secret, { json, query }: FakeRequest): FakeAnswer {
    const body = json as Body
    const refusal = refusalOf(body)
    if (refusal !== undefined) return refusal
    updateAs(query.get('fieldManager') ?? 'client', target, new Map(textEntries(body)))
    return { status: 200, body: secretBody(target) }
  }

  const encode = (value: string) => Buffer.from(value).toString('base64')
  const shared = { server: 'https://cluster.example.test:6443', ca: encode(vendorCertificate) }
  const fake: FakeKubernetes = {
    hosts: ['cluster.example.test'],
    credential: { ...shared, token },
    wrongCredential: { ...shared, token: 'fake.wrong.token' },
    target: { namespace, secret: name, type: 'Opaque' },
    options: {},
    answer,
    violations,
    state: () => new Map([...(secret?.data ?? [])].map(([key, value]) => [key, String(Buffer.from(value, 'base64'))])),
    tamper(key, value) {
      secret ??= fresh('Opaque')
      const data = new Map(secret.data)
      if (value === undefined) data.delete(key)
      else data.set(key, encode(value))
      updateAs('kubectl-edit', secret, data)
    },
    setTarget(value) {
      exists = value
      if (!value) secret = undefined
    },
    pageSize: undefined,
    refusedNames: new Set(),
    calls: { list: () => 1, update: 2, look: 1 },
    secret: () => secret,
    applyAs(manager, data) {
      const encoded = Object.fromEntries(Object.entries(data).map(([key, value]) => [key, encode(value)]))
      return applySecret(manager, { data: encoded }, false)
    },
    forgetManagers: () => {
      if (secret !== undefined) secret.managers = []
    },
    setImmutable: () => {
      if (secret !== undefined) secret.immutable = true
    },
  }
  return fake
}
