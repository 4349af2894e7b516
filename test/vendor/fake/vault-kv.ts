/** Vault's KV version 2 with AppRole and one namespace; driven by node-vault in vault-kv.test.ts. */
import type { Fake, FakeAnswer, FakeRequest } from '../fake.ts'

type Data = Record<string, unknown>
type Version = { readonly data: Data; readonly createdAt: string; deletedAt: string; destroyed: boolean }

const token = 'hvs.fake-token-of-nobody'
const loginToken = 'hvs.fake-token-by-approle'
const role = { roleId: 'fake-role-id-0001', secretId: 'fake-secret-id-0001' }
const path = 'shop/production'
const denied = '1 error occurred:\n\t* permission denied\n\n'

export type FakeVault = Fake & {
  /** Like `vault kv delete`: the version stays, but its data is not readable. */
  deletePath(): void
  /** Like `vault kv metadata delete`: removes everything. */
  wipePath(): void
  versions(): readonly Data[]
  setData(data: Data): void
}

/**
 * `kvVersion`: version of the mount. `tellsWhich`: older servers say which part of an AppRole is wrong. `hasNamespaces`:
 * false for servers that ignore their header. `hasDefaultPolicy`: false for a token that may not look itself up.
 */
export function fakeVault({
  method = 'token',
  kvVersion = '2',
  tellsWhich = false,
  hasNamespaces = true,
  hasDefaultPolicy = true,
} = {}): FakeVault {
  const versions: Version[] = []
  const violations: string[] = []
  let exists = true

  const errors = (status: number, ...texts: string[]): FakeAnswer => ({ status, body: { errors: texts } })
  const secret = (data: unknown, status = 200, auth: unknown = null): FakeAnswer => ({
    status,
    body: {
      request_id: 'fake-request',
      lease_id: '',
      renewable: false,
      lease_duration: 0,
      data,
      wrap_info: null,
      warnings: null,
      auth,
    },
  })

  function answer(request: FakeRequest): FakeAnswer {
    const isInside = !hasNamespaces || request.headers['x-vault-namespace'] === 'team-a'
    if (!isInside) return errors(403, 'permission denied')
    if (request.path === '/v1/auth/approle/login') return logIn(request)
    if (/^\/v1\/auth\/[^/]+\/login$/.test(request.path)) return errors(403, 'permission denied')
    const isKnown = [token, loginToken].includes(request.headers['x-vault-token'] ?? '')
    if (request.path === '/v1/sys/internal/ui/mounts') return secret({ auth: {}, secret: isKnown ? mounts() : {} })
    if (!isKnown) return errors(403, '2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n')
    if (request.path === '/v1/auth/token/lookup-self') {
      if (!hasDefaultPolicy) return errors(403, denied)
      return secret({ display_name: 'token-ops', policies: ['coffer'] })
    }
    if (request.path.startsWith('/v1/sys/internal/ui/mounts/secret/')) {
      return exists
        ? secret({ ...mounts()['secret/'], path: 'secret/' })
        : errors(403, 'preflight capability check returned 403')
    }
    const match = /^\/v1\/secret\/data\/(.+[^/])$/.exec(request.path)
    if (match === null) return errors(404, `no handler for route "${request.path.slice(4)}". route entry not found.`)
    if (!exists) return errors(404, `no handler for route "${request.path.slice(4)}". route entry not found.`)
    if (match[1] !== path) return errors(403, denied)
    if (kvVersion === '1') return answerOldMount(request)
    return data(request)
  }

  /** Version 1 has no path data/: a secret that somebody stored under that name is returned as it is. */
  function answerOldMount({ method }: FakeRequest): FakeAnswer {
    if (method !== 'GET') return { status: 204 }
    const latest = versions.at(-1)
    return latest === undefined ? errors(404) : secret(latest.data)
  }

  function logIn({ method, json }: FakeRequest): FakeAnswer {
    const { role_id, secret_id, ...rest } = json as Data
    if (method !== 'POST' || Object.keys(rest).length > 0) violations.push('a login of another form')
    if (!tellsWhich && (role_id !== role.roleId || secret_id !== role.secretId)) {
      return errors(400, 'invalid role or secret ID')
    }
    if (role_id !== role.roleId) return errors(400, 'invalid role ID')
    if (secret_id !== role.secretId) return errors(400, 'invalid secret id')
    const metadata = { role_name: 'coffer' }
    return secret(null, 200, { client_token: loginToken, metadata, lease_duration: 1_200, renewable: true })
  }

  const mounts = (): Record<string, Data> => ({
    ...(exists && { 'secret/': { type: 'kv', description: '', options: { version: kvVersion } } }),
    'old/': { type: 'kv', description: '', options: { version: '1' } },
    'pki/': { type: 'pki', description: '', options: null },
  })

  const metadata = (version: Version) => ({
    created_time: version.createdAt,
    custom_metadata: null,
    deletion_time: version.deletedAt,
    destroyed: version.destroyed,
    version: versions.indexOf(version) + 1,
  })

  const isDead = (version: Version) => version.deletedAt !== '' || version.destroyed

  function data({ method, json }: FakeRequest): FakeAnswer {
    const latest = versions.at(-1)
    if (method === 'GET') {
      if (latest === undefined) return errors(404)
      return isDead(latest)
        ? secret({ data: null, metadata: metadata(latest) }, 404)
        : secret({ data: latest.data, metadata: metadata(latest) })
    }
    // Coffer's policy does not allow PATCH.
    if (method !== 'POST' && method !== 'PUT') return errors(403, denied)

    const { data: given, options = {}, ...rest } = (json ?? {}) as { data?: Data; options?: { cas?: unknown } }
    if (Object.keys(rest).length > 0) violations.push(`unknown fields: ${Object.keys(rest)}`)
    if (given === undefined) return errors(400, 'no data provided')
    // The mount requires check-and-set, so that a write without it fails here.
    if (options.cas === undefined) return errors(400, 'check-and-set parameter required for this call')
    if (options.cas !== versions.length) return errors(400, 'check-and-set parameter did not match the current version')
    const refused = Object.keys(given).find((name) => fake.refusedNames.has(name))
    if (refused !== undefined) return errors(400, `error converting input ${given[refused]} for field "${refused}"`)
    return secret(metadata(store(given)))
  }

  function store(next: Data): Version {
    const version = { data: next, createdAt: '2026-01-01T00:00:00.000000001Z', deletedAt: '', destroyed: false }
    versions.push(version)
    return version
  }

  function live(): Data {
    const latest = versions.at(-1)
    return latest === undefined || isDead(latest) ? {} : latest.data
  }

  const shared = { address: 'https://vault.example.test:8200', namespace: 'team-a', method }
  const fake: FakeVault = {
    hosts: ['vault.example.test'],
    credential: method === 'token' ? { ...shared, token } : { ...shared, ...role },
    wrongCredential:
      method === 'token' ? { ...shared, token: 'hvs.wrong' } : { ...shared, ...role, secretId: 'fake-secret-id-0002' },
    target: { mount: 'secret', path },
    options: {},
    answer,
    violations,
    state: () => new Map(Object.entries(live()).map(([name, value]) => [name, String(value)])),
    tamper(name, value) {
      const { [name]: _before, ...others } = live()
      store(value === undefined ? others : { ...others, [name]: value })
    },
    setTarget: (value) => {
      exists = value
    },
    pageSize: undefined,
    refusedNames: new Set(),
    calls: method === 'token' ? { list: () => 1, update: 2, look: 1 } : { list: () => 2, update: 3, look: 1 },
    deletePath: () => {
      const latest = versions.at(-1)
      if (latest !== undefined) latest.deletedAt = '2026-01-02T00:00:00Z'
    },
    wipePath: () => void versions.splice(0),
    versions: () => versions.map((version) => version.data),
    setData: (next) => void store(next),
  }
  return fake
}
