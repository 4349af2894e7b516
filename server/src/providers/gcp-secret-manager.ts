/**
 * Google Cloud secrets: one secret per name, one version per push. Adding a version is not idempotent, so the current
 * value is compared first. A delete names the etag that was seen.
 */
import { crc32c } from '../crc32c.ts'
import { readServiceAccount } from '../google-service-account.ts'
import { isFault, VendorFault } from './fault.ts'
import { fetchGoogleToken, requireServiceAccount } from './google-account.ts'
import { applyEach, type Done, findFew } from './one-by-one.ts'
import {
  type Connection,
  type KnownItem,
  type Op,
  type Option,
  ownerTags,
  type Provider,
  type RemoteItem,
  type Values,
} from './provider.ts'
import { faultOf, type VendorRequest, type VendorResponse } from './vendor-http.ts'
import { at, listAt, maybeTextAt, textAt } from './vendor-json.ts'

type Write = Exclude<Op, { kind: 'delete' }>
type Asked = Omit<VendorRequest, 'url' | 'headers' | 'sort'>

const globalHost = 'secretmanager.googleapis.com'

function placeOf({ project, location = 'global' }: Values, credential: Values) {
  const id = project || (readServiceAccount(credential.serviceAccount ?? '')?.project ?? '')
  const parent = `projects/${id}`
  if (location === 'global') return { host: globalHost, parent, project: id, location }
  const host = `secretmanager.${location}.rep.googleapis.com`
  return { host, parent: `${parent}/locations/${location}`, project: id, location }
}

/** A missing project is a 403 with a reason; a mismatched etag or state is a 400 with a status. */
function sort({ json }: VendorResponse) {
  const details = at(json, 'error', 'details')
  const reasons = Array.isArray(details) ? details.map((detail) => maybeTextAt(detail, 'reason')) : []
  if (reasons.includes('CONSUMER_INVALID')) return 'gone'
  const status = maybeTextAt(json, 'error', 'status')
  if (status === 'FAILED_PRECONDITION') return 'conflict'
  return status === 'ABORTED' ? 'transient' : undefined
}

function api(connection: Connection) {
  const { host, parent, project, location } = placeOf(connection.target, connection.credential)
  let token: Promise<string> | undefined

  async function send(path: string, request: Asked): Promise<VendorResponse> {
    token ??= fetchGoogleToken(connection)
    const headers = { authorization: `Bearer ${await token}` }
    return connection.http.send({ ...request, url: `https://${host}/v1/${parent}${path}`, headers, sort, blame })
  }
  // In the project of the service account, a right is missing. Another project may as well be the wrong one.
  const isOwn = project === placeOf({}, connection.credential).project
  const blame = ({ status }: VendorResponse) => (status === 403 && !isOwn ? 'project' : undefined)
  return { send, isRegional: location !== 'global' }
}

type Api = ReturnType<typeof api>

async function* pages(google: Api, path: string, field: string): AsyncIterable<unknown> {
  let pageToken: string | undefined
  do {
    const query = new URLSearchParams({ pageSize: '1000', ...(pageToken && { pageToken }) })
    const { json } = await google.send(`${path}?${query}`, { method: 'GET' })
    // The field is omitted if the list is empty.
    if (at(json, field) !== undefined) yield* listAt(json, field)
    pageToken = maybeTextAt(json, 'nextPageToken')
  } while (pageToken)
}

const pathOf = ({ name }: KnownItem) => `/secrets/${encodeURIComponent(name)}`

const isOurs = (secret: unknown, syncId: string) =>
  Object.entries(ownerTags(syncId)).every(([label, value]) => at(secret, 'labels', label) === value)

function connect(connection: Connection) {
  const { syncId, now } = connection
  const google = api(connection)
  /** Etags from this run's listing, on which the decision to delete was based. */
  const etags = new Map<string, string>()

  async function* list() {
    for await (const secret of pages(google, '/secrets', 'secrets')) yield itemOf(secret)
  }

  function itemOf(secret: unknown): RemoteItem {
    const name = textAt(secret, 'name').split('/').at(-1) ?? ''
    etags.set(name, textAt(secret, 'etag'))
    return { name, isOurs: isOurs(secret, syncId) }
  }

  async function findOne(entry: KnownItem): Promise<RemoteItem | undefined> {
    const { status, json } = await google.send(pathOf(entry), { method: 'GET', accept: [404] })
    return status === 404 ? undefined : itemOf(json)
  }

  async function create(op: Write): Promise<Done> {
    const replication = google.isRegional ? {} : { replication: { automatic: {} } }
    const query = new URLSearchParams({ secretId: op.name })
    const answer = await google.send(`/secrets?${query}`, {
      method: 'POST',
      json: { ...replication, labels: ownerTags(syncId) },
      accept: [409],
    })
    const { status } = answer
    if (status !== 409) return addVersion(op)
    if (maybeTextAt(answer.json, 'error', 'status') !== 'ALREADY_EXISTS') throw faultOf(answer, now(), sort(answer))
    const { json: secret } = await google.send(pathOf(op), { method: 'GET' })
    if (!isOurs(secret, syncId)) {
      throw new VendorFault('conflict', 'A secret with this name already exists and does not belong to this sync.', {
        status,
      })
    }
    return (await isCurrent(op)) ? {} : addVersion(op)
  }

  async function update(op: Write): Promise<Done> {
    if (await isCurrent(op)) return {}
    try {
      return await addVersion(op)
    } catch (error) {
      // The secret is gone; if the whole project is gone, `create` fails with that.
      if (!isFault(error, 'gone')) throw error
      return create(op)
    }
  }

  /**
   * True if the value is already current, as after a lost response. Without the right to read, or without a live
   * version, a new version is added.
   */
  async function isCurrent(op: Write): Promise<boolean> {
    const { status, json } = await google.send(`${pathOf(op)}/versions/latest:access`, {
      method: 'GET',
      accept: [400, 403, 404],
    })
    if (status >= 400) return false
    return Buffer.from(textAt(json, 'payload', 'data'), 'base64').equals(Buffer.from(op.value))
  }

  async function addVersion(op: Write): Promise<Done> {
    const bytes = Buffer.from(op.value)
    const payload = { data: bytes.toString('base64'), dataCrc32c: String(crc32c(bytes)) }
    await google.send(`${pathOf(op)}:addVersion`, { method: 'POST', json: { payload } })
    return {}
  }

  async function remove(op: Op): Promise<Done> {
    const etag = etags.get(op.name) ?? (await findEtag(op))
    if (etag === undefined) return {}
    const query = new URLSearchParams({ etag })
    await google.send(`${pathOf(op)}?${query}`, { method: 'DELETE', accept: [404] })
    return {}
  }

  async function findEtag(op: Op): Promise<string | undefined> {
    const { status, json } = await google.send(pathOf(op), { method: 'GET', accept: [404] })
    return status === 404 ? undefined : textAt(json, 'etag')
  }

  const applyOne = (op: Op) => (op.kind === 'delete' ? remove(op) : op.kind === 'create' ? create(op) : update(op))
  return {
    list,
    find: (entries: readonly KnownItem[]) => findFew(entries, findOne),
    apply: (ops: readonly Op[]) => applyEach(ops, applyOne),
  }
}

async function listLocations(connection: Connection): Promise<readonly Option[] | undefined> {
  const google = api({ ...connection, target: { ...connection.target, location: 'global' } })
  try {
    const options: Option[] = [{ label: 'global: replicated by Google', value: 'global' }]
    for await (const place of pages(google, '/locations', 'locations')) {
      const value = textAt(place, 'locationId')
      if (value !== 'global') options.push({ label: value, value })
    }
    return options
  } catch (error) {
    if (isFault(error, 'scope')) return undefined
    throw error
  }
}

const commands = `gcloud iam service-accounts create coffer --project PROJECT
gcloud iam roles create coffer --project PROJECT --permissions \\
secretmanager.locations.list,secretmanager.secrets.create,secretmanager.secrets.delete,secretmanager.secrets.get,\\
secretmanager.secrets.list,secretmanager.versions.access,secretmanager.versions.add
gcloud projects add-iam-policy-binding PROJECT --role projects/PROJECT/roles/coffer \\
--member serviceAccount:coffer@PROJECT.iam.gserviceaccount.com
gcloud iam service-accounts keys create key.json --iam-account coffer@PROJECT.iam.gserviceaccount.com
base64 -w 0 key.json && shred -u key.json`

export const gcpSecretManager: Provider = {
  slug: 'gcp-secret-manager',
  name: 'Google Cloud Secret Manager',
  website: 'https://cloud.google.com/security/products/secret-manager',
  docs: 'https://cloud.google.com/secret-manager/docs/reference/rest',
  glyph: { text: 'G', colour: '#1a73e8' },
  notes: [
    'A push adds a version. Earlier versions stay, and Google charges for them until they are destroyed.',
    'The list contains no values. Changes by others are not detected, but deletions are.',
    'Coffer reads the current version first, so that a repeated push adds no version. Without the right secretmanager.versions.access, a repeated push can add one.',
  ],
  capabilities: { read: 'names', bulk: 1, mixes: false, ownerMark: 'labels', guard: 'mark', defaultMode: 'per-key' },
  limits: {
    name: /^[A-Za-z0-9_-]+$/,
    nameHint: 'letters, digits, _ and -',
    nameMax: 255,
    valueMaxBytes: 65_536,
    allowsEmpty: false,
    rate: { perSecond: 8, concurrency: 1 },
  },
  auth: [
    {
      kind: 'copy',
      id: 'commands',
      label: 'Create a service account',
      description: 'Replace PROJECT with the id of your project. The last command prints the key to paste below.',
      language: 'bash',
      text: () => commands,
    },
    {
      kind: 'password',
      id: 'serviceAccount',
      label: 'Key of the service account',
      description: 'The JSON file, in one line or in base64.',
      check: (value) =>
        readServiceAccount(value) === undefined ? 'is not the JSON key of a service account.' : undefined,
    },
  ],
  async verify(connection) {
    await fetchGoogleToken(connection)
    return requireServiceAccount(connection).email
  },
  target: [
    {
      kind: 'text',
      id: 'project',
      label: 'Project id',
      description: 'If empty, the project of the service account.',
      isOptional: true,
      check: (value) =>
        /^(|[a-z][a-z0-9-]{4,28}[a-z0-9]|\d{6,20})$/.test(value) ? undefined : 'is not the id of a project.',
    },
    {
      kind: 'select',
      id: 'location',
      isFree: true,
      label: 'Location',
      description: 'Regional secrets are separate from global ones and never leave their region.',
      defaultValue: 'global',
      placeholder: 'global or europe-west3',
      options: listLocations,
      check: (value) => (/^(global|[a-z]+-[a-z]+\d{1,2})$/.test(value) ? undefined : 'is not a location.'),
    },
  ],
  options: [],
  describeTarget(target, credential) {
    const { project, location } = placeOf(target, credential)
    return {
      label: location === 'global' ? project : `${project} (${location})`,
      fingerprint: `${project}/${location}`,
    }
  },
  normaliseName: (name) => name,
  connect,
}
