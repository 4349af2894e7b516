import { defineCommand } from '../command.ts'
import type { Context } from '../context.ts'
import { CliError, usageError } from '../error.ts'
import { visible } from '../output/table.ts'
import { readSettings } from '../place/place.ts'
import { addTrusted, listTrusted, removeTrusted } from '../place/trust.ts'
import { confirmNames, unconfirmedNames } from '../place/trusted-names.ts'
import { confirm } from '../prompt.ts'
import { readLogins } from '../session/login-file.ts'
import { parseServiceAddress } from '../session/service-address.ts'

export const trust = defineCommand({
  usage: '[URL]',
  args: [0, 1],
  flags: {
    list: { type: 'boolean', about: 'List what is confirmed' },
    remove: { type: 'boolean', about: 'Withdraw the confirmation of URL' },
  },
  details: `
COFFER_TOKEN and other credentials of the environment are sent only to COFFER_URL, to services that you have signed in
to, and to origins that you confirm here. A .coffer.json alone cannot name another one: it comes with the folder, and
anybody can write it. Without URL, asks about the one of this folder.

"allowNames" in .coffer.json lists secrets that coffer run may set although their names make programs run other code. It
counts once you have confirmed the names here; a name that is added later is asked for again. --remove without URL
withdraws them.

Examples:
  coffer trust https://coffer.example.com
  coffer trust                               the service of .coffer.json here
  coffer trust --list`,
  async run(ctx, { args: [given], flags }) {
    if (flags.list) return list(ctx, given ?? flags.remove)
    if (given === undefined && (await settleNames(ctx, flags.remove)) && hasNoUrl(ctx, flags.remove)) return
    if (flags.remove && given === undefined) throw usageError('--remove needs a URL.', 'coffer trust --remove URL')
    const origin = new URL(parseServiceAddress(given ?? (await askAboutFolder(ctx)))).origin
    if (flags.remove) removeTrusted(ctx, origin)
    else addTrusted(ctx, origin)
    const isLeft = listTrusted(ctx.env).some((one) => one.origin === origin)
    ctx.out.note(`Credentials may ${isLeft ? 'be sent' : 'not be sent any more'} to ${origin}.`)
    if (flags.remove && isLeft) ctx.out.warn(`You are signed in there, which confirms it too. try: coffer logout`)
    ctx.out.show({ success: true, origin }, () => ({ columns: [], rows: [] }))
  },
})

/** Nothing more to ask about in this folder. */
const hasNoUrl = (ctx: Context, isRemoval: boolean): boolean =>
  isRemoval || readSettings(ctx).file?.content.url === undefined

/** Asks about the names that the file of this folder allows, or withdraws them. False if there are none. */
async function settleNames(ctx: Context, isRemoval: boolean): Promise<boolean> {
  const settings = readSettings(ctx)
  const { file } = settings
  const names = file?.content.allowNames ?? []
  if (!file || names.length === 0) return false
  const path = visible(file.path)
  if (isRemoval) {
    confirmNames(ctx, file.path, [])
    ctx.out.note(`No name in allowNames of ${path} counts any more.`)
  } else if (unconfirmedNames(ctx, settings).length > 0) {
    const message = `May secrets set ${visible(names.join(', '))}, which make programs run other code? ${path} allows it.`
    if (!(await confirm(ctx, { message, hint: '--allow-name KEY' }))) throw new CliError('cancelled', 'Cancelled.')
    confirmNames(ctx, file.path, names)
    ctx.out.note(`These names in allowNames of ${path} count now.`)
  }
  return true
}

async function askAboutFolder(ctx: Context): Promise<string> {
  const { file } = readSettings(ctx)
  const url = file?.content.url
  if (!file || url === undefined) throw usageError('No .coffer.json names a service here.', 'coffer trust URL')
  const message = `May your credentials be sent to ${visible(url)}, which ${visible(file.path)} names?`
  if (await confirm(ctx, { message, hint: 'coffer trust URL' })) return url
  throw new CliError('cancelled', 'Cancelled.')
}

function list({ env, out }: Context, isMore: string | boolean): void {
  if (isMore) throw usageError('--list stands alone.', 'coffer trust --list')
  const found = listTrusted(env)
  const byPath = Object.entries(readLogins(env).trustedNames ?? {})
  const names = byPath.map(([path, names]) => ({ file: path, allowNames: names, by: 'coffer trust' }))
  out.show([...found, ...names], () => ({
    columns: ['what', 'confirmed by'],
    rows: [
      ...found.map(({ origin, by }) => [origin, by]),
      ...names.map(({ file, allowNames, by }) => [`${allowNames.join(', ')} in ${file}`, by]),
    ],
    empty: 'No service is confirmed.',
  }))
}
