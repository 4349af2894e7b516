/**
 * Google's Secret Manager in one project, global and regional; driven by its client in gcp-secret-manager.test.ts. In
 * the deep tier Google's protos check each request.
 */
import { generateKeyPairSync } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import crc from 'crc-32/crc32c.js'
import { importSPKI, jwtVerify } from 'jose'
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'
import { loadJudge } from '../load-judge.ts'

export const gcpProject = 'shop-production'
const email = `coffer@${gcpProject}.iam.gserviceaccount.com`
const token = 'ya29.fake-access-token'

const makeKey = () =>
  generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  })
const account = makeKey()
const stranger = makeKey()
const keyFile = (privateKey: string) => ({
  type: 'service_account',
  project_id: gcpProject,
  private_key_id: 'a1b2c3',
  private_key: privateKey,
  client_email: email,
  token_uri: 'https://metadata.example.test/token',
})
export const serviceAccount = keyFile(account.privateKey)

type Judged = {
  readonly method: string
  /** Path parameters, such as `parent`. */
  readonly path: Readonly<Record<string, string>>
  readonly problems: readonly string[]
}
type Judge = (request: FakeRequest) => Judged | undefined

const google = await loadJudge<{ googleJudge(services: Record<string, string>): Judge }>('./fake/google-api.ts')
/** Shared by all fakes: loading the protos is slow. */
const judgeByProtos = google?.googleJudge({
  'google/cloud/secretmanager/v1/service.proto': 'google.cloud.secretmanager.v1.SecretManagerService',
  'google/cloud/location/locations.proto': 'google.cloud.location.Locations',
})

const routes: readonly [verb: string, pattern: RegExp, method: string, name: 'name' | 'parent'][] = [
  ['GET', /^\/v1\/(projects\/[^/:]+)\/locations$/, 'ListLocations', 'name'],
  ['GET', /^\/v1\/(projects\/[^:]+)\/secrets$/, 'ListSecrets', 'parent'],
  ['POST', /^\/v1\/(projects\/[^:]+)\/secrets$/, 'CreateSecret', 'parent'],
  ['POST', /^\/v1\/(projects\/[^:]+\/secrets\/[^/:]+):addVersion$/, 'AddSecretVersion', 'parent'],
  ['GET', /^\/v1\/(projects\/[^:]+\/versions\/[^/:]+):access$/, 'AccessSecretVersion', 'name'],
  ['GET', /^\/v1\/(projects\/[^:]+\/secrets\/[^/:]+)$/, 'GetSecret', 'name'],
  ['DELETE', /^\/v1\/(projects\/[^:]+\/secrets\/[^/:]+)$/, 'DeleteSecret', 'name'],
]

function route({ method: verb, path }: FakeRequest): Judged | undefined {
  for (const [expected, pattern, method, name] of routes) {
    const [, found] = (verb === expected && pattern.exec(path)) || []
    if (found !== undefined) return { method, path: { [name]: found }, problems: [] }
  }
  return undefined
}

/** Uses the protos if they are loaded, and checks the routes above against them. */
const judge: Judge = (request) => {
  const routed = route(request)
  const judged = judgeByProtos === undefined ? routed : judgeByProtos(request)
  if (routed === undefined || judged === undefined || isDeepStrictEqual(routed, { ...judged, problems: [] }))
    return judged
  return { ...judged, problems: [...judged.problems, `taken for ${routed.method}`] }
}

type Secret = { name: string; labels: Record<string, string>; replication?: unknown; etag: string; versions: string[] }

export type FakeGcp = Fake & {
  secret(name: string): Secret | undefined
  /** Changes the labels and so the etag, like someone else. */
  relabel(name: string): void
  /** Permissions that the service account lacks. */
  readonly denied: Set<string>
}

const refuse = (code: number, status: string, message: string, reason?: string): FakeAnswer => ({
  status: code,
  body: {
    error: {
      code,
      message,
      status,
      ...(reason && {
        details: [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'googleapis.com' }],
      }),
    },
  },
})

export function fakeGcp(parts: { location?: string; clock?: () => number } = {}): FakeGcp {
  const { location = 'global', clock } = parts
  const secrets = new Map<string, Secret>()
  const violations: string[] = []
  const denied = new Set<string>()
  let exists = true
  let changes = 0

  const parent = location === 'global' ? `projects/${gcpProject}` : `projects/${gcpProject}/locations/${location}`
  const host = location === 'global' ? 'secretmanager.googleapis.com' : `secretmanager.${location}.rep.googleapis.com`
  const nextEtag = () => `"16${(++changes).toString(16).padStart(12, '0')}"`
  const shown = ({ versions: _versions, ...secret }: Secret) => ({ ...secret, createTime: '2026-01-01T00:00:00Z' })
  const missing = (name: string) => refuse(404, 'NOT_FOUND', `Secret [${name}] not found.`)

  async function answer(request: FakeRequest): Promise<FakeAnswer> {
    if (request.path === '/token') return login(request)
    if (request.headers.authorization !== `Bearer ${token}`) {
      return refuse(401, 'UNAUTHENTICATED', 'Request had invalid authentication credentials.')
    }
    const judged = judge(request)
    if (judged === undefined || judged.problems.length > 0) {
      violations.push(`${request.method} ${request.path}: ${judged?.problems.join(', ') ?? 'no such method'}`)
      return refuse(400, 'INVALID_ARGUMENT', 'Invalid JSON payload received.')
    }
    if (!exists)
      return refuse(
        403,
        'PERMISSION_DENIED',
        `Permission denied on resource project ${gcpProject}.`,
        'CONSUMER_INVALID',
      )
    const { method } = judged
    if (denied.has(method))
      return refuse(403, 'PERMISSION_DENIED', `Permission denied for ${method} (or it may not exist).`)
    if (method !== 'ListLocations' && request.host.replace(/:\d+$/, '') !== host)
      violations.push(`${method} at ${request.host}`)
    return operations[method]?.(request, judged) ?? refuse(501, 'UNIMPLEMENTED', method)
  }

  async function login(request: FakeRequest): Promise<FakeAnswer> {
    const form = new URLSearchParams(request.text)
    if (form.get('grant_type') !== 'urn:ietf:params:oauth:grant-type:jwt-bearer') violations.push('grant_type')
    try {
      const { payload } = await jwtVerify(form.get('assertion') ?? '', await importSPKI(account.publicKey, 'RS256'), {
        algorithms: ['RS256'],
        issuer: email,
        audience: 'https://oauth2.googleapis.com/token',
        currentDate: new Date(clock?.() ?? 0),
        requiredClaims: ['iat', 'exp', 'scope'],
      })
      if ((payload.exp ?? 0) - (payload.iat ?? 0) > 3_600) throw new Error('the lifetime exceeds one hour')
    } catch {
      return { status: 400, body: { error: 'invalid_grant', error_description: 'Invalid JWT Signature.' } }
    }
    return { status: 200, body: { access_token: token, expires_in: 3_599, token_type: 'Bearer' } }
  }

  type Handle = (request: FakeRequest, judged: Judged) => FakeAnswer

  /** `name` and `parent` end in the secret's id; other projects are not visible. */
  function find({ path }: Judged): Secret | undefined {
    const name = (path.name ?? path.parent ?? '').replace(/\/versions\/[^/]+$/, '')
    return name.startsWith(`${parent}/secrets/`) ? secrets.get(name.slice(`${parent}/secrets/`.length)) : undefined
  }

  const operations: Record<string, Handle> = {
    ListLocations: () => ({
      status: 200,
      body: { locations: ['europe-west3', 'us-central1'].map((locationId) => ({ name: locationId, locationId })) },
    }),

    ListSecrets({ query }, { path }) {
      if (path.parent !== parent) {
        return refuse(403, 'PERMISSION_DENIED', `Permission denied for ${path.parent} (or it may not exist).`)
      }
      const size = Math.min(Number(query.get('pageSize') ?? 25), fake.pageSize ?? 25_000)
      const from = Number(query.get('pageToken') ?? 0)
      const all = [...secrets.values()]
      const page = all.slice(from, from + size).map(shown)
      const next = from + size < all.length ? { nextPageToken: String(from + size) } : {}
      return { status: 200, body: { ...(page.length > 0 && { secrets: page }), totalSize: all.length, ...next } }
    },

    CreateSecret({ query, json }) {
      const id = query.get('secretId') ?? ''
      const { labels = {}, replication } = json as Partial<Secret>
      if (!/^[A-Za-z0-9_-]{1,255}$/.test(id) || fake.refusedNames.has(id)) {
        return refuse(400, 'INVALID_ARGUMENT', `The provided Secret ID [${id}] does not match the expected format.`)
      }
      if ((replication === undefined) === (location === 'global')) {
        return refuse(400, 'INVALID_ARGUMENT', 'Replication is for global secrets, and required there.')
      }
      const words = Object.entries(labels).flat()
      if (words.some((word) => !/^[a-z0-9_-]{0,63}$/.test(word)))
        return refuse(400, 'INVALID_ARGUMENT', 'Invalid label.')
      if (secrets.has(id)) return refuse(409, 'ALREADY_EXISTS', `Secret [${parent}/secrets/${id}] already exists.`)
      const secret = { name: `${parent}/secrets/${id}`, labels, replication, etag: nextEtag(), versions: [] }
      secrets.set(id, secret)
      return { status: 200, body: shown(secret) }
    },

    AddSecretVersion(request, judged) {
      const secret = find(judged)
      if (secret === undefined) return missing(request.path)
      const { data = '', dataCrc32c } = (request.json as { payload: { data?: string; dataCrc32c?: string } }).payload
      const bytes = Buffer.from(data, 'base64')
      if (bytes.length === 0) return refuse(400, 'INVALID_ARGUMENT', 'Secret Payload cannot be empty.')
      if (bytes.length > 65_536) return refuse(400, 'INVALID_ARGUMENT', `Payload too large: ${bytes}`)
      if (dataCrc32c !== undefined && Number(dataCrc32c) !== crc.buf(bytes) >>> 0) {
        violations.push('the checksum does not fit the payload')
        return refuse(400, 'INVALID_ARGUMENT', 'Data corruption detected: checksum mismatch.')
      }
      secret.versions.push(bytes.toString('utf8'))
      const name = `${secret.name}/versions/${secret.versions.length}`
      const state = { state: 'ENABLED', clientSpecifiedPayloadChecksum: dataCrc32c !== undefined }
      return { status: 200, body: { name, createTime: '2026-01-01T00:00:00Z', ...state, etag: nextEtag() } }
    },

    GetSecret(request, judged) {
      const secret = find(judged)
      return secret === undefined ? missing(request.path) : { status: 200, body: shown(secret) }
    },

    DeleteSecret(request, judged) {
      const secret = find(judged)
      if (secret === undefined) return missing(request.path)
      const etag = request.query.get('etag')
      if (etag !== null && etag !== secret.etag) {
        return refuse(400, 'FAILED_PRECONDITION', 'The etag in the request does not match the etag of the resource.')
      }
      secrets.delete(secret.name.split('/').at(-1) ?? '')
      return { status: 200, body: {} }
    },

    AccessSecretVersion(request, judged) {
      const secret = find(judged)
      const value = secret?.versions.at(-1)
      if (secret === undefined || value === undefined) return missing(`${request.path} or has no versions`)
      const bytes = Buffer.from(value)
      const payload = { data: bytes.toString('base64'), dataCrc32c: String(crc.buf(bytes) >>> 0) }
      return { status: 200, body: { name: `${secret.name}/versions/${secret.versions.length}`, payload } }
    },
  }

  const fake: FakeGcp = {
    hosts: [...new Set([host, 'secretmanager.googleapis.com', 'oauth2.googleapis.com'])],
    credential: { serviceAccount: JSON.stringify(serviceAccount) },
    wrongCredential: { serviceAccount: JSON.stringify(keyFile(stranger.privateKey)) },
    target: { project: gcpProject, location },
    options: {},
    answer,
    violations,
    state: () =>
      new Map(
        [...secrets]
          .map(([name, { versions }]) => [name, versions.at(-1)] as const)
          .filter((entry): entry is [string, string] => entry[1] !== undefined),
      ),
    tamper(name, value) {
      const known = secrets.get(name)
      if (value === undefined) secrets.delete(name)
      else if (known) known.versions.push(value)
      else secrets.set(name, { name: `${parent}/secrets/${name}`, labels: {}, etag: nextEtag(), versions: [value] })
    },
    setTarget: (value) => {
      exists = value
    },
    pageSize: 25_000,
    refusedNames: new Set(),
    // One call for a token, and one more before an update to read the entry.
    calls: { list: (count) => 1 + Math.ceil(count / 1_000), update: 3, look: 1 },
    secret: (name) => secrets.get(name),
    relabel(name) {
      const secret = secrets.get(name)
      if (secret) Object.assign(secret, { labels: { team: 'theirs' }, etag: nextEtag() })
    },
    denied,
  }
  return fake
}
