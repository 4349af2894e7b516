import { type Api, ApiError, type AuthState, createApi, ResponseError, type Workspace } from '@coffer/sdk'
import { defineCommand } from '../command.ts'
import { connectOptions } from '../connect-options.ts'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import { visible } from '../output/table.ts'
import { offerFirstProject } from '../place/first-project.ts'
import { readSettings, requireSetting } from '../place/place.ts'
import { isTrusted, requireSafeTransport } from '../place/trust.ts'
import { chooseWorkspace } from '../place/workspace-choice.ts'
import { confirm } from '../prompt.ts'
import { keepLogin, type Store } from '../session/keep.ts'
import { hasKeychain } from '../session/keychain.ts'
import { readLogins, requireLoginFolder } from '../session/login-file.ts'
import { namedTransport } from '../session/named-transport.ts'
import { defaultUrl, parseServiceAddress } from '../session/service-address.ts'
import { findSession } from '../session/session.ts'
import { signIn } from '../session/sign-in.ts'

export const login = defineCommand({
  usage: '[URL]',
  args: [0, 1],
  flags: {
    email: { type: 'string', value: 'ADDRESS', about: 'Sign in at the terminal, with the password of this account' },
    'no-browser': { type: 'boolean', about: 'Print the page to open instead of opening it' },
    store: { type: 'string', value: 'PLACE', about: 'Where to keep the session', choices: ['keychain', 'file'] },
  },
  details: `
Opens a page of the service in the browser, where you approve this program. Asks for
email address and password here if the service has no account yet, if no browser can be
opened, and with --email. The setup code of the first account is read from
COFFER_DATA_DIR or ./data of the folder where this program was started, if the service
is on this machine, and asked for otherwise.

The session is kept in the keychain of the system, or in a file that only you can read
if there is none. It ends after 8 hours without use, after 30 days, or with coffer logout.
Programs use COFFER_TOKEN instead.

Examples:
  coffer login                            the service of the last login, or ${defaultUrl}
  coffer login https://coffer.example.com
  coffer login --no-browser               approve on another machine
  coffer login --email me@example.com     without a browser`,
  async run(ctx, { args, flags }) {
    const url = addressOf(ctx, args[0])
    requireSafeTransport(ctx, url)
    if (!ctx.terminal.isInteractive) {
      throw new CliError(
        'notSignedIn',
        'A login needs a person at a terminal.',
        `coffer login ${url} in a terminal, or set COFFER_TOKEN`,
      )
    }
    await confirmFolder(ctx, url, args[0])
    requireLoginFolder(ctx.env)
    // The choices of the flag.
    const store = flags.store as Store | undefined
    if (store === 'keychain' && !(await hasKeychain())) {
      throw new CliError('failure', 'There is no keychain here, or it is locked.', 'coffer login --store file')
    }
    const connect = (credential: string | null): Api =>
      createApi(connectOptions(ctx, { url, credential, platform: { transport: namedTransport } }))
    const state = await readState(
      createApi(connectOptions(ctx, { url, credential: null, timeoutMs: 5_000, retries: 0 })),
      url,
    )
    const session = await signIn(ctx, connect, state, { url, email: flags.email, noBrowser: flags['no-browser'] })
    const api = connect(session)
    const me = await api.me.read()
    const workspace = await chooseWorkspace(ctx, api, ctx.flags.workspace, me)
    await endOldSession(ctx, connect, url)
    const kept = await keepLogin(
      ctx.env,
      url,
      { email: me.email, userId: me.id, workspace: workspace?.slug },
      session,
      store,
    )
    ctx.out.note(`Signed in to ${url} as ${visible(me.email)}.`)
    ctx.out.detail(`The session is kept in ${kept === 'keychain' ? 'the keychain' : 'a file that only you can read'}.`)
    await sayNext(ctx, api, url, workspace)
    ctx.out.show(me, () => ({ columns: [], rows: [] }))
  },
})

function addressOf(ctx: Context, given: string | undefined): string {
  if (given !== undefined && ctx.flags.url !== undefined) {
    throw usageError('The address of the service is given twice.', 'coffer login URL')
  }
  const found = given === undefined ? readSettings(ctx).find('url') : undefined
  const url = parseServiceAddress(given ?? found?.value ?? defaultUrl)
  if (given === undefined) ctx.out.note(`Service: ${url} (${found?.from ?? 'the default address'})`)
  return url
}

/** The first time, a folder must not choose alone who gets the password. */
async function confirmFolder(ctx: Context, url: string, given: string | undefined): Promise<void> {
  const { file, find } = readSettings(ctx)
  const isOfFolder = given === undefined && file !== undefined && find('url')?.from === file.path
  if (!isOfFolder || isTrusted(ctx, url)) return
  const message = `You have not used ${visible(url)} before. Sign in there?`
  if (!(await confirm(ctx, { message, hint: 'coffer login URL' }))) throw new CliError('cancelled', 'Cancelled.')
}

/** Other programs answer too; nobody must type a password into one of them. */
async function readState(api: Api, url: string): Promise<AuthState> {
  const foreign = () => new CliError('failure', `${url} is not a Coffer service.`, 'coffer login URL')
  try {
    const state = await api.auth.readState()
    if (typeof Object(state).needsSetup === 'boolean') return state
  } catch (error) {
    if (!(error instanceof ResponseError) && !(error instanceof ApiError && error.status === 404)) throw error
  }
  throw foreign()
}

/** Replaced by the new session. */
async function endOldSession(ctx: Context, connect: (credential: string) => Api, url: string): Promise<void> {
  if (!readLogins(ctx.env).byUrl[url]) return
  try {
    const session = await findSession(ctx.env, url)
    if (session !== undefined) await connect(session).auth.logoutCli({ timeoutMs: 5_000 })
  } catch {
    ctx.out.detail('The session of the earlier login has ended already, or could not be ended.')
  }
}

async function sayNext(ctx: Context, api: Api, url: string, workspace: Workspace | undefined): Promise<void> {
  if (ctx.env.COFFER_TOKEN || ctx.env.COFFER_TOKEN_FILE) {
    ctx.out.warn('COFFER_TOKEN is set: commands use it instead of this login.')
  }
  warnOfOther(ctx, url, workspace)
  if (!workspace) ctx.out.note('You are in no workspace yet: ask an admin for an invite.')
  else await offerFirstProject(ctx, api, url, workspace)
}

/** A folder or a variable may lead commands to another service than this one. */
function warnOfOther(ctx: Context, url: string, workspace: Workspace | undefined): void {
  const settings = readSettings({ ...ctx, flags: { ...ctx.flags, url: undefined } })
  const used = requireSetting(settings, 'url')
  if (used === url) return
  const from = settings.find('url')?.from ?? ''
  const hint =
    from === settings.file?.path
      ? `coffer init --force --url ${url}${workspace ? ` -w ${workspace.slug}` : ''}`
      : `unset ${from}`
  ctx.out.warn(visible(`${from} names another service, ${used}: commands here use that one.`))
  ctx.out.warn(visible(`try: ${hint}`))
}
