/**
 * Reads a folder of a live Vault with the token of the caller, over its HTTP API. Everything under the path is read, or
 * nothing is imported. The token goes to Vault alone: no error and no remark holds it, nor any text of Vault's answers.
 */
import { CofferError } from '@coffer/sdk'
import { nodeTransport } from '@coffer/sdk/node'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import type { Progress } from '../output/output.ts'
import { cannotImport, type Found, type FoundSecret } from './entry.ts'
import { isRecord, isText, type JsonRecord, parseRecord } from './json.ts'
import { dataOf, fieldsOf, segmentsOf } from './tool/vault.ts'

const requestTimeoutMs = 10_000
const totalTimeoutMs = 300_000
const maxDepth = 20
/** As many as one import takes. */
const maxSecrets = 10_000
const parallel = 8
/** A secret of Vault is at most 1 MiB by default; a folder may list thousands of names. */
const maxAnswerBytes = 16 * 1024 * 1024

type Ask = (path: readonly string[], query?: string) => Promise<{ status: number; body: JsonRecord | undefined }>
type Mount = { readonly path: readonly string[]; readonly isVersioned: boolean }

/** Paths in the result are relative to the given one. */
export async function readVault(ctx: Context, path: string): Promise<Found> {
  const ask = openVault(ctx)
  const segments = segmentsOf(path)
  const mount = await findMount(ask, segments)
  const progress = ctx.out.progress('Reading Vault:')
  try {
    return await readFolder(ask, mount, segments.slice(mount.path.length), progress)
  } finally {
    progress.end()
  }
}

function openVault({ env }: Context): Ask {
  const address = env.VAULT_ADDR
  if (!address) throw usageError('VAULT_ADDR is not set.', 'export VAULT_ADDR=https://vault.example.com:8200')
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw usageError('VAULT_ADDR is not an http(s) address.', 'export VAULT_ADDR=https://vault.example.com:8200')
  }
  const token = env.VAULT_TOKEN?.trim() ?? ''
  if (!/^[\x21-\x7e]+$/.test(token))
    throw usageError('VAULT_TOKEN is not set.', 'export VAULT_TOKEN="$(vault print token)"')
  const headers = {
    accept: 'application/json',
    'x-vault-request': 'true',
    'x-vault-token': token,
    ...(env.VAULT_NAMESPACE && { 'x-vault-namespace': env.VAULT_NAMESPACE }),
  }
  const root = url.href.replace(/\/+$/, '')
  const total = AbortSignal.timeout(totalTimeoutMs)
  return async (path, query = '') => {
    const wrong = path.find((segment) => segment === '.' || segment === '..')
    if (wrong !== undefined) throw cannotImport('Vault has a path that cannot be read', [path.join('/')])
    const signal = AbortSignal.any([total, AbortSignal.timeout(requestTimeoutMs)])
    const target = `${root}/v1/${path.map(encodeURIComponent).join('/')}${query}`
    const answer = await nodeTransport({
      method: 'GET',
      url: target,
      headers,
      body: undefined,
      signal,
      maxBytes: maxAnswerBytes,
    }).catch((error: NodeJS.ErrnoException) => {
      if (error instanceof CofferError) throw error
      const why = signal.aborted ? 'no answer in time' : (error.code ?? 'connection failed')
      throw new CliError('unreachable', `Vault at ${url.host} cannot be reached (${why}).`)
    })
    if (answer.status === 429) throw new CliError('rateLimited', 'Vault limits the rate of requests.', 'again later')
    if (answer.status === 503) throw new CliError('unreachable', 'Vault is sealed or starts up.')
    if (answer.status >= 300 && answer.status < 400) {
      throw new CliError(
        'failure',
        'Vault answered with a redirect.',
        'set VAULT_ADDR to the address of the active node',
      )
    }
    return { status: answer.status, body: parseRecord(answer.body) }
  }
}

/** The mount that holds the path, and the version of its KV engine. */
async function findMount(ask: Ask, segments: readonly string[]): Promise<Mount> {
  const [first] = segments
  if (first === undefined) throw usageError('--path is empty.', '--path secret/app')
  const { status, body } = await ask(['sys', 'internal', 'ui', 'mounts', ...segments])
  // Before version 0.10 there were neither this endpoint nor KV version 2.
  if (status === 404) return { path: [first], isVersioned: false }
  if (status === 403) {
    throw new CliError(
      'forbidden',
      'Vault refuses the token for this path, or has no mount there.',
      '--path MOUNT/FOLDER',
    )
  }
  const data = body && isRecord(body.data) ? body.data : undefined
  if (status !== 200 || !data || !isText(data.path)) throw unexpected(status)
  if (data.type !== 'kv' && data.type !== 'generic') {
    throw new CliError('failure', `The mount ${data.path} is not a KV engine, so it cannot be imported.`)
  }
  const isVersioned = isRecord(data.options) && data.options.version === '2'
  return { path: segmentsOf(data.path), isVersioned }
}

async function readFolder(ask: Ask, mount: Mount, base: readonly string[], progress: Progress): Promise<Found> {
  const secrets: FoundSecret[] = []
  const leftOut: string[] = []
  const pathOf = (kind: string, path: readonly string[]) => [
    ...mount.path,
    ...(mount.isVersioned ? [kind] : []),
    ...path,
  ]

  async function readSecret(path: readonly string[]): Promise<void> {
    const { status, body } = await ask(pathOf('data', path))
    const name = [...mount.path, ...path].join('/')
    if (status === 403) throw new Refused(name)
    if (status === 404) {
      // A deleted version is listed, and answered with its metadata alone.
      if (body && isRecord(body.data)) leftOut.push(`${name} (deleted)`)
      return
    }
    if (status !== 200 || !body) throw unexpected(status)
    secrets.push(...fieldsOf(path.slice(base.length), dataOf(body)))
    if (secrets.length > maxSecrets) throw new CliError('failure', tooMany, '--path with a smaller folder')
    progress.update(`${secrets.length} secrets`)
  }

  /** Names in a folder; those of folders end with a slash. */
  async function list(path: readonly string[]): Promise<string[]> {
    const { status, body } = await ask(pathOf('metadata', path), '?list=true')
    const name = `${[...mount.path, ...path].join('/')}/`
    if (status === 404) return []
    if (status === 403) throw new Refused(name)
    const keys = body && isRecord(body.data) ? body.data.keys : undefined
    if (status !== 200 || !Array.isArray(keys)) throw unexpected(status)
    return keys.filter(isText)
  }

  // The path may be a secret, a folder, or both, and policies often allow only one of the two.
  const [secret, folder] = await Promise.allSettled([base.length > 0 && readSecret(base), list(base)])
  const isNothingFound = secrets.length === 0 && (folder.status === 'rejected' || folder.value.length === 0)
  const warnings = [secret, folder].flatMap((outcome) => {
    if (outcome.status === 'fulfilled') return []
    if (!(outcome.reason instanceof Refused) || isNothingFound) throw outcome.reason
    return [`Vault refuses the token for ${outcome.reason.path}, so this part is left out.`]
  })
  let folders: (readonly string[])[] = folder.status === 'fulfilled' ? [base] : []
  for (let depth = 0; folders.length > 0; depth++) {
    if (depth === maxDepth) throw new CliError('failure', `The folders are more than ${maxDepth} deep.`)
    const found = await inParallel(folders, async (folder) =>
      (await list(folder)).map((name) => ({
        path: [...folder, name.replace(/\/$/, '')],
        isFolder: name.endsWith('/'),
      })),
    )
    const names = found.flat()
    if (names.length + secrets.length > maxSecrets)
      throw new CliError('failure', tooMany, '--path with a smaller folder')
    await inParallel(
      names.filter(({ isFolder }) => !isFolder),
      ({ path }) => readSecret(path),
    )
    folders = names.filter(({ isFolder }) => isFolder).map(({ path }) => path)
  }
  return { secrets, leftOut, warnings }
}

const tooMany = `There are more than ${maxSecrets.toLocaleString('en')} secrets, the most that one import takes.`

class Refused extends CliError {
  readonly path: string

  constructor(path: string) {
    super('forbidden', `Vault refuses the token for ${path}. Nothing was imported.`)
    this.path = path
  }
}
const unexpected = (status: number) =>
  new CliError('failure', `Vault answered in an unexpected way (status ${status}).`, 'check VAULT_ADDR')

async function inParallel<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  const left = [...items.entries()]
  const worker = async () => {
    for (let next = left.shift(); next; next = left.shift()) results[next[0]] = await work(next[1])
  }
  await Promise.all(Array.from({ length: Math.min(parallel, items.length) }, worker))
  return results
}
