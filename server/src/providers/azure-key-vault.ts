/**
 * Secrets of one Azure Key Vault. A write is a new version with our tags. A deleted secret stays recoverable and keeps
 * its name taken, so it is recovered before it is written again.
 */
import { azureAuth, cloudOf, fetchAzureToken } from './azure-account.ts'
import { isFault, VendorFault, VendorRefusal } from './fault.ts'
import { applyEach, type Done, findFew } from './one-by-one.ts'
import {
  type Connection,
  type KnownItem,
  type Op,
  ownerTags,
  type Provider,
  type RemoteItem,
  type Values,
} from './provider.ts'
import { faultOf, sameOrigin, type VendorRequest, type VendorResponse } from './vendor-http.ts'
import { at, listAt, maybeTextAt, textAt } from './vendor-json.ts'

type Write = Exclude<Op, { kind: 'delete' }>
type Asked = Omit<VendorRequest, 'url' | 'headers'>

const apiVersion = '7.6'
const vaultUri =
  /^https:\/\/([a-z](?!.*--)[a-z0-9-]{1,22}[a-z0-9]\.(vault\.azure\.net|vault\.usgovcloudapi\.net|vault\.azure\.cn))\/?$/i

function originOf({ target, credential }: Pick<Connection, 'target' | 'credential'>): string {
  const [, host = '', domain = ''] = vaultUri.exec(target.vaultUri ?? '') ?? []
  if (domain.toLowerCase() !== cloudOf(credential).vaults) {
    throw new VendorFault('gone', 'The vault does not belong to the cloud of the credential.', { field: 'vaultUri' })
  }
  return `https://${host.toLowerCase()}`
}

function api(connection: Connection) {
  let token: Promise<string> | undefined

  async function send(url: string, request: Asked): Promise<VendorResponse> {
    token ??= fetchAzureToken(connection)
    const headers = { authorization: `Bearer ${await token}` }
    try {
      return await connection.http.send({ ...request, url, headers })
    } catch (error) {
      // A deleted vault loses its host name. The login host was just resolved, so DNS itself works.
      if (!isFault(error, 'transient') || !error.message.includes('could not be resolved (ENOTFOUND)')) throw error
      throw new VendorFault('gone', 'There is no vault at this address.', { field: 'vaultUri' })
    }
  }
  return { send, url: (path: string, query = '') => `${originOf(connection)}${path}?api-version=${apiVersion}${query}` }
}

const isOurs = (secret: unknown, syncId: string) =>
  Object.entries(ownerTags(syncId)).every(([tag, value]) => at(secret, 'tags', tag) === value)

/** Private keys of certificates are stored as secrets too. They are listed, so that their names count as taken. */
const isOfCertificate = (secret: unknown) =>
  at(secret, 'managed') === true || /x-pkcs12|x-pem-file/i.test(maybeTextAt(secret, 'contentType') ?? '')

const innerCode = ({ json }: VendorResponse) => maybeTextAt(json, 'error', 'innererror', 'code')

function connect(connection: Connection) {
  const { syncId, now } = connection
  const vault = api(connection)
  const tags = ownerTags(syncId)

  async function* list(): AsyncIterable<RemoteItem> {
    let url: string | undefined = vault.url('/secrets', '&maxresults=25')
    while (url) {
      const { json }: VendorResponse = await vault.send(url, { method: 'GET' })
      for (const secret of listAt(json, 'value')) yield itemOf(secret)
      const next = maybeTextAt(json, 'nextLink')
      url = next ? sameOrigin(url, next) : undefined
    }
  }

  const itemOf = (secret: unknown): RemoteItem => ({
    name: new URL(textAt(secret, 'id')).pathname.split('/')[2] ?? '',
    mark: textAt(secret, 'attributes', 'updated'),
    isOurs: isOurs(secret, syncId) && !isOfCertificate(secret),
  })

  /**
   * The response also holds the value, which is ignored. If the credential may not get secrets, fall back to listing.
   */
  async function findOne({ name }: KnownItem): Promise<RemoteItem | undefined> {
    const { status, json } = await vault.send(vault.url(`/secrets/${encodeURIComponent(name)}`), {
      method: 'GET',
      accept: [403, 404],
    })
    if (status === 200) return itemOf(json)
    if (status === 404) return undefined
    for await (const item of list()) if (item.name.toLowerCase() === name.toLowerCase()) return item
    return undefined
  }

  async function write(op: Write): Promise<Done> {
    const response = await put(op)
    if (response.status !== 409) return done(response)
    if (innerCode(response) !== 'ObjectIsDeletedButRecoverable') throw refusalOf(response)
    await recover(op)
    const again = await put(op)
    if (again.status === 409) throw refusalOf(again)
    return done(again)
  }

  const put = (op: Write) =>
    vault.send(vault.url(pathOf(op)), { method: 'PUT', json: { value: op.value, tags }, accept: [409] })
  const done = ({ json }: VendorResponse): Done => ({ mark: textAt(json, 'attributes', 'updated') })

  async function recover(op: Op): Promise<void> {
    const deleted = `/deleted${pathOf(op).slice(1)}`
    const { json: secret } = await vault.send(vault.url(deleted), { method: 'GET' })
    if (!isOurs(secret, syncId)) {
      throw new VendorFault(
        'conflict',
        'A deleted secret with this name can still be recovered and does not belong to this sync.',
      )
    }
    await vault.send(vault.url(`${deleted}/recover`), { method: 'POST' })
  }

  /** Deleting and recovering take the vault some seconds, during which it refuses everything else. */
  function refusalOf(response: VendorResponse): VendorFault {
    const isBusy = innerCode(response)?.startsWith('Object') === true
    const { kind, message, facts } = faultOf(response, now(), isBusy ? 'transient' : undefined)
    return new VendorRefusal(kind, message, { ...facts, ...(isBusy && { retryAfterMs: 5_000 }) })
  }

  async function remove(op: Op): Promise<Done> {
    const response = await vault.send(vault.url(pathOf(op)), { method: 'DELETE', accept: [404, 409] })
    // A conflict is fine if the secret is being deleted or already deleted.
    if (response.status === 409 && innerCode(response)?.includes('Deleted') !== true) throw refusalOf(response)
    return {}
  }

  const pathOf = ({ name }: Op) => `/secrets/${encodeURIComponent(name)}`
  const applyOne = (op: Op) => (op.kind === 'delete' ? remove(op) : write(op))
  return {
    list,
    find: (entries: readonly KnownItem[]) => findFew(entries, findOne),
    apply: (ops: readonly Op[]) => applyEach(ops, applyOne),
  }
}

export const azureKeyVault: Provider = {
  slug: 'azure-key-vault',
  name: 'Azure Key Vault',
  website: 'https://azure.microsoft.com/products/key-vault',
  docs: 'https://learn.microsoft.com/rest/api/keyvault/secrets/',
  glyph: { text: 'KV', colour: '#0f6cbd' },
  notes: [
    'Names cannot contain underscores: DATABASE_URL becomes DATABASE-URL. Names are case-insensitive.',
    'Each push writes a new version, with Coffer’s tags and no others.',
    'Changes by others are detected by their time, to the second. Before an update, Coffer reads the secret for its tags and ignores the value in the response.',
    'A deleted secret stays recoverable for the retention period of the vault, and is recovered if its key is created again.',
  ],
  capabilities: {
    read: 'mark',
    bulk: 1,
    mixes: false,
    ownerMark: 'tags',
    marksUpdates: true,
    guard: 'mark',
    defaultMode: 'per-key',
  },
  limits: {
    name: /^[0-9A-Za-z-]+$/,
    nameHint: 'letters, digits and -',
    nameMax: 127,
    valueMaxBytes: 25_600,
    allowsEmpty: true,
    foldsCase: true,
    rate: { perSecond: 20, concurrency: 2 },
  },
  auth: azureAuth,
  async verify(connection) {
    await fetchAzureToken(connection)
    const { clientId, tenantId } = connection.credential
    return `application ${clientId} of tenant ${tenantId}`
  },
  target: [
    {
      kind: 'text',
      id: 'vaultUri',
      label: 'Vault URI',
      placeholder: 'https://shop-production.vault.azure.net',
      check: (value) => (vaultUri.test(value) ? undefined : 'must look like https://NAME.vault.azure.net.'),
    },
  ],
  options: [],
  describeTarget({ vaultUri: uri = '' }: Values) {
    const host = vaultUri.exec(uri)?.[1]?.toLowerCase() ?? ''
    return { label: host.split('.')[0] ?? '', fingerprint: host }
  },
  normaliseName: (name) => name.replaceAll('_', '-'),
  connect,
}
