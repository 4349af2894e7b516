/** Finds the service and the credential: from the options, or else from the environment. */
import { type Client, type ClientOptions, createClient } from './client.ts'
import {
  type CredentialSource,
  createJwtSource,
  createLazySource,
  createTokenSource,
  identityExchange,
  tokenExchange,
} from './credential.ts'
import { ResponseError, SettingError } from './error.ts'
import { createPlatform, type Platform } from './platform.ts'

type ReadToken = (signal?: AbortSignal) => string | Promise<string>

/**
 * An API token, a session or a JWT; a function that returns one and is called for every request; or a token of a platform,
 * which is exchanged for a JWT.
 */
export type Credential = string | ReadToken | { readonly identityToken: string | ReadToken }

export type ConnectOptions = Partial<ClientOptions> & {
  /** `null` sends none: for public calls, and for pages of the service itself, whose browser sends a cookie. */
  readonly credential?: Credential | null
  /** Slug or id; the exchange of a platform's token needs it. */
  readonly workspace?: string
  /** Audience of the tokens that GitHub Actions issues for the service: its address by default. */
  readonly audience?: string
  /** Exchange an API token for JWTs, so that the token itself is sent once in 14 minutes. */
  readonly exchange?: boolean
  /** The session of the command line, if somebody has signed in. Used if nothing else is found. */
  readonly findSession?: () => string | undefined | Promise<string | undefined>
  /** Replaces the transport, the clock, the files or the environment. */
  readonly platform?: Partial<Platform>
}

export type Connection = { readonly client: Client; readonly platform: Platform }

/** Where docs/oidc.md mounts the projected token of a pod. */
const podTokenFile = '/var/run/coffer/token'

export function connect(options: ConnectOptions): Connection {
  const platform = createPlatform(options.platform)
  const { credential } = options
  const url = setting(options.url, platform, 'COFFER_URL')
  if (url === undefined) throw new SettingError('The address of the service is missing: set COFFER_URL.')
  const clientOptions = { ...options, url }
  const plain = createClient(clientOptions, platform)
  if (credential === null) return { client: plain, platform }
  const context = { options, clientOptions, platform, plain }
  const source = createLazySource(async () =>
    credential === undefined ? chooseFromEnvironment(context) : fromOption(context, credential),
  )
  return { client: createClient(clientOptions, platform, source), platform }
}

/** An option, or else a variable of the environment. An empty one counts as missing. */
export const setting = (option: string | undefined, { env }: Platform, name: string) => option || env[name] || undefined

type Context = {
  readonly options: ConnectOptions
  readonly clientOptions: ClientOptions
  readonly platform: Platform
  /** Sends no credential. */
  readonly plain: Client
}

function fromOption(context: Context, credential: Credential): CredentialSource | Promise<CredentialSource> {
  if (typeof credential === 'string') return fromToken(context, () => credential)
  if (typeof credential === 'function') return fromToken(context, credential)
  const { identityToken } = credential
  return fromIdentity(context, typeof identityToken === 'string' ? () => identityToken : identityToken)
}

async function chooseFromEnvironment(context: Context): Promise<CredentialSource> {
  const { platform, options } = context
  const {
    COFFER_TOKEN: token,
    COFFER_TOKEN_FILE: tokenFile,
    ACTIONS_ID_TOKEN_REQUEST_URL: githubUrl,
    ACTIONS_ID_TOKEN_REQUEST_TOKEN: githubToken,
    COFFER_ID_TOKEN: idToken,
    COFFER_ID_TOKEN_FILE: namedFile,
    KUBERNETES_SERVICE_HOST: pod,
  } = platform.env
  const idTokenFile = namedFile || (pod && podTokenFile)
  if (token) return fromToken(context, () => token)
  if (tokenFile) return fromToken(context, () => requireFile(platform, tokenFile))
  if (githubUrl && githubToken)
    return fromIdentity(context, (signal) => requestGithubToken(context, githubUrl, githubToken, signal))
  if (idToken) return fromIdentity(context, () => idToken)
  if (idTokenFile && (namedFile || (await platform.readFile(idTokenFile)) !== undefined)) {
    return fromIdentity(context, () => requireFile(platform, idTokenFile))
  }
  const session = await options.findSession?.()
  if (session) return createTokenSource(() => session)
  throw new SettingError(
    'There is no credential: set COFFER_TOKEN or COFFER_TOKEN_FILE, or give the job a token of its platform.',
  )
}

/** Tokens that are no API token, such as sessions, cannot be exchanged. */
async function fromToken(context: Context, readToken: ReadToken): Promise<CredentialSource> {
  const source = createTokenSource(readToken)
  const { options, clientOptions, platform } = context
  if (!options.exchange || !(await readToken()).includes('_live_')) return source
  const client = createClient(clientOptions, platform, source)
  return createJwtSource((signal) => client.send(tokenExchange(signal)), platform)
}

function fromIdentity({ options, platform, plain }: Context, readToken: ReadToken): CredentialSource {
  const workspace = setting(options.workspace, platform, 'COFFER_WORKSPACE')
  if (workspace === undefined) {
    throw new SettingError('The workspace is missing: set COFFER_WORKSPACE to exchange a token of the platform.')
  }
  return createJwtSource(
    async (signal) => plain.send(identityExchange(await readToken(signal), workspace, signal)),
    platform,
  )
}

async function requireFile(platform: Platform, path: string): Promise<string> {
  const text = await platform.readFile(path)
  if (text === undefined) throw new SettingError(`${path} cannot be read (ENOENT).`)
  return text
}

async function requestGithubToken(
  context: Context,
  address: string,
  requestToken: string,
  signal: AbortSignal | undefined,
): Promise<string> {
  const { options, clientOptions, platform, plain } = context
  if (!URL.canParse(address)) throw new SettingError('ACTIONS_ID_TOKEN_REQUEST_URL is not a URL.')
  const url = new URL(address)
  url.searchParams.set('audience', setting(options.audience, platform, 'COFFER_AUDIENCE') ?? plain.url)
  const issuer = createClient(
    { ...clientOptions, url: url.origin },
    platform,
    createTokenSource(() => requestToken),
  )
  const path = url.pathname + url.search
  const { body, status } = await issuer.send({ method: 'GET', path, options: signal ? { signal } : {} })
  const { value } = Object(body)
  if (typeof value !== 'string') throw new ResponseError('GitHub has returned no identity token.', status)
  return value
}
