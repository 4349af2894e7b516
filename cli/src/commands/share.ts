import { ApiError, type NewShare } from '@coffer/sdk'
import { defineCommand } from '../command.ts'
import { connect } from '../connect.ts'
import type { Context } from '../context.ts'
import { readDuration } from '../duration.ts'
import { CliError, usageError } from '../error.ts'
import { formatTime } from '../output/time.ts'
import { locate } from '../place/token-place.ts'
import { askHidden, askText, confirm } from '../prompt.ts'
import { explainMissing, openProject, parseCount, requireEnvironmentName, requireNames } from '../secret/project.ts'
import { printable } from '../secret/value.ts'
import { readStdin } from '../stdin.ts'

export const share = defineCommand({
  usage: 'KEY…|-',
  args: [0, 100],
  flags: {
    expires: { type: 'string', value: 'TIME', about: 'How long the link works: 5m to 30d; 1h by default' },
    views: { type: 'string', value: 'N', about: 'How often it can be opened: 1 to 100; once by default' },
    password: { type: 'boolean', about: 'Ask for a password that the reader needs too' },
    'server-side': {
      type: 'boolean',
      about: 'Let the service seal it: the link then has no key, and the service could read it',
    },
    list: { type: 'boolean', about: 'List the shares of the project' },
    revoke: { type: 'string', value: 'ID', about: 'End a share and erase its content' },
    open: {
      type: 'optional',
      value: 'LINK',
      about: 'Open a share that somebody sent you; - reads the link from stdin',
    },
    yes: { type: 'boolean', short: 'y', about: 'Open without asking' },
  },
  details: `
Prints a link to a copy of the values, for somebody without an account. The reader opens it in a browser, or with
coffer share --open. By default it is sealed here: the key is the part of the link after #, which no browser sends, so
the service cannot read the share. - shares text from stdin.

--open shows what is in a link without a browser. It uses up a view, so it asks first. Without a value it asks for the
link, which then is in no history of the shell and in no list of processes.

Examples:
  coffer share DATABASE_URL
  coffer share API_KEY API_SECRET --expires 24h --views 3 --password
  coffer share - < id_ed25519
  coffer share --list
  coffer share --open`,
  async run(ctx, { flags, args }) {
    const creating = [flags.expires, flags.views].some((flag) => flag !== undefined) || flags.password
    const ways = [flags.list, flags.revoke !== undefined, flags.open !== undefined].filter(Boolean).length
    const isCreation = ways === 0
    if (ways > 1 || (!isCreation && (creating || flags['server-side']))) {
      throw usageError('--list, --revoke and --open stand alone.', 'coffer share --help')
    }
    if (flags.yes && flags.open === undefined) throw usageError('--yes belongs to --open.')
    if (flags.open !== undefined) {
      const [link, another] = flags.open === '' ? args : [flags.open, ...args]
      if (another !== undefined) throw usageError('--open takes one link.')
      return open(ctx, link, flags.yes)
    }
    if (!isCreation && args.length > 0) throw usageError('--list and --revoke take no KEY.')
    // Not for --open: the link leads to its service, which never sees the token.
    const placed = await locate(ctx)
    if (flags.list) return list(placed)
    if (flags.revoke !== undefined) return revoke(placed, flags.revoke)
    await create(placed, args, flags)
  },
})

type CreateFlags = {
  readonly expires: string | undefined
  readonly views: string | undefined
  readonly password: boolean
  readonly 'server-side': boolean
}

async function create(ctx: Context, args: readonly string[], flags: CreateFlags): Promise<void> {
  const [first, another] = args
  if (first === undefined) throw usageError('A KEY is missing.', 'coffer share KEY')
  const isText = first === '-'
  if (isText && another !== undefined) throw usageError('- stands alone.')
  if (isText && flags.password) throw usageError('--password cannot be asked for while stdin is the text.')
  const limits = limitsOf(flags)
  const keys = isText ? [] : requireNames(args)
  const project = openProject(ctx)
  const source = isText ? { text: await readStdin(ctx) } : { keys, environment: requireEnvironmentName(ctx) }
  if ('text' in source && source.text === '') throw usageError('There is nothing on stdin to share.')
  const password = flags.password ? await askNewPassword(ctx) : undefined
  const { createShare } = await import('../share/create.ts')
  const wanted = { source, limits, password, isServerSide: flags['server-side'] }
  const issued = await createShare(ctx, project, wanted)
  if (ctx.flags.json) ctx.out.show(issued, () => ({ columns: [], rows: [] }))
  else ctx.out.line(issued.url)
  const times = issued.maxViews === 1 ? 'once' : `${issued.maxViews} times`
  const until = formatTime(ctx.terminal, issued.expiresAt)
  ctx.out.note(`Opens ${times}, until ${until}, in a browser or with coffer share --open.`)
  ctx.out.note(`To end it: coffer share --revoke ${issued.id}`)
}

function limitsOf({ expires, views }: CreateFlags): Pick<NewShare, 'expiresIn' | 'maxViews'> {
  const lifeMs = readDuration(expires, '--expires', { unset: '1h', range: ['5m', '30d'] })
  const maxViews = parseCount(views ?? '1', '--views')
  if (maxViews > 100) throw usageError('--views is 100 at most.', '--views 100')
  return { expiresIn: Math.round(lifeMs / 1_000), maxViews }
}

async function askNewPassword(ctx: Context): Promise<string> {
  const hint = 'coffer share --password in a terminal'
  const check = (text: string) => (text === '' || text.length > 256 ? '1 to 256 letters' : undefined)
  const password = await askHidden(ctx, { message: 'Password for the reader', hint, check })
  const repeated = await askHidden(ctx, { message: 'The same password again', hint })
  if (repeated !== password) throw new CliError('failure', 'The two passwords differ. Nothing was shared.')
  return password
}

async function list(ctx: Context): Promise<void> {
  const project = openProject(ctx)
  const shares = await explainMissing(project, { environments: [] }, () => project.api.share.list(project.path))
  ctx.out.show(shares, () => ({
    columns: ['id', 'label', 'sealed', 'state', 'views', 'expires', 'last opened'],
    rows: shares.map((one) => [
      one.id,
      one.label,
      one.kind === 'e2e' ? 'end-to-end' : 'by the service',
      one.state,
      `${one.views}/${one.maxViews}`,
      formatTime(ctx.terminal, one.expiresAt),
      one.lastViewedAt === null ? 'never' : formatTime(ctx.terminal, one.lastViewedAt),
    ]),
    empty: 'Nothing is shared.',
  }))
}

async function revoke(ctx: Context, id: string): Promise<void> {
  if (!/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id)) {
    throw usageError('--revoke takes the id of a share.', 'coffer share --list')
  }
  const project = openProject(ctx)
  const { api, path } = project
  const answer = await explainMissing(project, { environments: [] }, () => api.share.revoke({ ...path, id })).catch(
    (error: unknown) => {
      if (!(error instanceof ApiError && error.status === 404)) throw error
      throw new CliError('notFound', `There is no share ${id} in the project ${path.prj}.`, 'coffer share --list')
    },
  )
  ctx.out.show(answer, () => ({ columns: ['id', 'state'], rows: [[id, 'revoked']] }))
}

async function open(ctx: Context, given: string | undefined, isConfirmed: boolean): Promise<void> {
  const { openShare, parseLink, readMeta } = await import('../share/open.ts')
  const link = parseLink(await readLink(ctx, given))
  // The link names the service that made it, and gets no credential; --url is for another address of the same one.
  const api = connect(ctx, { url: ctx.flags.url ?? link.url, credential: null })
  const meta = await readMeta(api, link)
  const until = formatTime(ctx.terminal, meta.expiresAt)
  const times = meta.viewsLeft === 1 ? 'once more' : `${meta.viewsLeft} more times`
  const message = `This share can be opened ${times}, until ${until}. Open it now?`
  if (!isConfirmed && !(await confirm(ctx, { message, hint: '--yes' }))) throw new CliError('cancelled', 'Cancelled.')
  const hint = 'coffer share --open in a terminal'
  const password = meta.hasPassword ? await askHidden(ctx, { message: 'Password of the share', hint }) : undefined
  const { content, viewsLeft } = await openShare(api, link, meta, password)
  if (content.t === 'kv') {
    ctx.out.show({ secrets: content.items, viewsLeft }, () => ({
      columns: ['name', 'value'],
      // Whole on a terminal too: nobody can open the share again for the rest.
      rows: content.items.map(({ name, value }) => [name, value]),
      isWhole: true,
    }))
  } else if (ctx.flags.json) {
    ctx.out.show({ content: content.v, viewsLeft }, () => ({ columns: [], rows: [] }))
  } else {
    const isTerminal = ctx.terminal.stdout.isTTY === true
    await ctx.out.raw(isTerminal ? `${printable(ctx, content.v)}\n` : content.v)
  }
  ctx.out.note(viewsLeft === 0 ? 'The share cannot be opened again.' : `Views left: ${viewsLeft}.`)
}

const readLink = async (ctx: Context, given: string | undefined): Promise<string> =>
  given === '-'
    ? readStdin(ctx)
    : (given ?? askText(ctx, { message: 'Link of the share', hint: 'coffer share --open=LINK' }))
