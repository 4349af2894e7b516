/** The secrets of one environment, read once and then from memory. Values are in closures, so no inspection shows them. */
import { type ConnectOptions, connect, setting } from './connect.ts'
import { ApiError, CofferError, InvalidSecret, MissingSecret, ResponseError, SettingError } from './error.ts'
import { type InjectOptions, injectValues } from './inject.ts'
import type { Platform } from './platform.ts'
import { withParams, withQuery } from './request.ts'
import { createSharedCall } from './shared-call.ts'
import type { LeftOut } from './variable-name.ts'
import { type Change, compare, type WatchOptions, watchChanges } from './watch.ts'

const defaultStaleIfErrorMs = 10 * 60_000

export type SecretsOptions = ConnectOptions & {
  readonly project?: string
  /** Name or id. */
  readonly environment?: string
  /** References that cannot be resolved are an error by default, or stay as they are, or become empty (with a project). */
  readonly onUnresolved?: 'error' | 'keep' | 'empty'
  /** How long a refresh may fail before it throws; 10 minutes by default. A 401, 403 or 404 always throws. */
  readonly staleIfErrorMs?: number
  /** An earlier read to start from. Nothing is read then until `refresh` is called. */
  readonly snapshot?: Snapshot
  /** Ends the first read. */
  readonly signal?: AbortSignal
}

/** All values in a plain object, and the ETag that asks whether they have changed. */
export type Snapshot = { readonly values: Readonly<Record<string, string>>; readonly etag: string | undefined }

export type Secrets = {
  /** Throws `MissingSecret` if there is none. */
  get(name: string): string
  find(name: string): string | undefined
  /**
   * The value in another type. `Number` and `Boolean` accept only numbers and true, false, 1, 0, yes, no, on, off;
   * `InvalidSecret` is thrown for other values, and if `parse` throws or returns undefined.
   */
  require<Value>(name: string, parse: (text: string) => Value): Value
  names(): string[]
  /** All values in a plain object, which can be printed by accident. */
  reveal(): Record<string, string>
  /**
   * Sets the secrets as environment variables. Names that make programs run other code, such as PATH, are left out and
   * returned.
   */
  inject(options?: InjectOptions): readonly LeftOut[]
  /** For a later `coffer({ snapshot })`. */
  snapshot(): Snapshot
  /** Asks the service for changes. Keeps the values if it cannot answer, for `staleIfErrorMs`. */
  refresh(options?: { readonly signal?: AbortSignal }): Promise<Change>
  /** Waits for changes until `signal` aborts or the loop ends. Throws what `refresh` throws. */
  watch(options?: WatchOptions): AsyncIterable<Change>
}

type Loaded = { readonly values: ReadonlyMap<string, string>; readonly etag: string | undefined; readonly at: number }

export async function openSecrets(options: SecretsOptions = {}): Promise<Secrets> {
  const { client, platform } = connect(options)
  const { path, place } = locate(options, platform)
  const { staleIfErrorMs = defaultStaleIfErrorMs, onUnresolved = 'error' } = options
  const { snapshot } = options
  let loaded: Loaded = snapshot
    ? { values: new Map(Object.entries(snapshot.values)), etag: snapshot.etag, at: platform.now() }
    : await load(undefined, options.signal)
  /** Set after 401, 403 and 404: the values are no longer for this caller. */
  let refusal: ApiError | undefined

  async function load(last: Loaded | undefined, signal: AbortSignal | undefined): Promise<Loaded> {
    const at = platform.now()
    const request = { method: 'GET', path, ifNoneMatch: last?.etag, ...(signal && { options: { signal } }) }
    const { status, body, etag, requestId } = await client.send(request)
    if (last && status === 304) return { ...last, at }
    const rows = readRows(body)
    if (!rows) throw new ResponseError('The answer is not a list of secrets.', status, requestId)
    const unresolved = onUnresolved === 'error' ? rows.find((row) => row.isUnresolved) : undefined
    if (unresolved)
      throw new CofferError(`${unresolved.name} has references that cannot be resolved.`, status, requestId)
    return { values: new Map(rows.map(({ name, value }) => [name, value])), etag, at }
  }

  const refresh = createSharedCall(async (signal) => {
    const before = loaded
    try {
      // After a refusal nothing is known, so that the next success reads everything again.
      loaded = await load(refusal ? undefined : before, signal)
      refusal = undefined
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ApiError && [401, 403, 404].includes(error.status)) {
        refusal = error
        loaded = { values: new Map(), etag: undefined, at: before.at }
        throw error
      }
      if (refusal || platform.now() - before.at > staleIfErrorMs) throw error
    }
    return compare(before.values, loaded.values)
  })

  function known(): ReadonlyMap<string, string> {
    if (refusal) throw refusal
    return loaded.values
  }

  const find = (name: string) => known().get(name)

  function get(name: string): string {
    const value = find(name)
    if (value === undefined) throw new MissingSecret(name, place)
    return value
  }

  return {
    get,
    find,
    require(name, parse) {
      const value = parseValue(get(name), parse)
      if (value === undefined) throw new InvalidSecret(name, place)
      return value
    },
    names: () => [...known().keys()],
    reveal: () => Object.fromEntries(known()),
    inject: (injecting = {}) => injectValues(known(), platform.env, injecting),
    snapshot: () => ({ values: Object.fromEntries(known()), etag: loaded.etag }),
    refresh: ({ signal } = {}) => refresh(signal),
    watch: (watching) =>
      watchChanges(loaded.values, (signal) => refresh(signal).then(() => loaded.values), platform, watching),
  }
}

/** The list to read, and its name in errors. */
function locate(options: SecretsOptions, platform: Platform): { readonly path: string; readonly place: string } {
  const workspace = setting(options.workspace, platform, 'COFFER_WORKSPACE')
  const project = setting(options.project, platform, 'COFFER_PROJECT')
  const environment = setting(options.environment, platform, 'COFFER_ENVIRONMENT')
  if (project === undefined && environment === undefined) {
    return { path: '/v1/secrets', place: 'the environment of the credential' }
  }
  if (workspace === undefined || project === undefined || environment === undefined) {
    throw new SettingError('Set COFFER_WORKSPACE, COFFER_PROJECT and COFFER_ENVIRONMENT, or neither of the last two.')
  }
  const path = withParams('/v1/workspace/:workspace/project/:project/secret', { workspace, project })
  const { onUnresolved = 'error' } = options
  return {
    path: withQuery(path, { environmentId: environment, resolve: true, onUnresolved }),
    place: `${workspace}/${project}/${environment}`,
  }
}

type Row = { readonly name: string; readonly value: string; readonly isUnresolved: boolean }

/** A personal value takes precedence over the shared one. Undefined if the body is not a list of secrets. */
function readRows(body: unknown): Row[] | undefined {
  if (!Array.isArray(body)) return undefined
  const rows: Row[] = []
  for (const secret of body) {
    const { name, values } = Object(secret)
    if (typeof name !== 'string' || !Array.isArray(values)) return undefined
    const { value, unresolved } = Object(values.find((row) => Object(row).isPersonal) ?? values[0])
    if (typeof value === 'string') rows.push({ name, value, isUnresolved: unresolved?.length > 0 })
  }
  return rows
}

const yes = ['true', '1', 'yes', 'on']
const no = ['false', '0', 'no', 'off']

function parseBoolean(text: string): boolean | undefined {
  const word = text.trim().toLowerCase()
  return yes.includes(word) || (no.includes(word) ? false : undefined)
}

/** Undefined if the text does not have the type. The error of `parse` is dropped: it may quote the value. */
function parseValue<Value>(text: string, parse: (text: string) => Value): Value | undefined {
  const parser: unknown = parse
  // Boolean('false') is true, and Number('') is 0.
  if (parser === Boolean) return parseBoolean(text) as Value | undefined
  if (parser === Number && text.trim() === '') return undefined
  try {
    const value = parse(text)
    return Number.isNaN(value) ? undefined : value
  } catch {
    return undefined
  }
}
