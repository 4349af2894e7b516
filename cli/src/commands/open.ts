import { ConnectionError } from '@coffer/sdk'
import { defineCommand } from '../command.ts'
import type { Context } from '../context.ts'
import { CliError } from '../error.ts'
import { readSettings, requireSetting } from '../place/place.ts'
import { locate } from '../place/token-place.ts'
import { openPage, requestPage } from '../session/browser.ts'

export const open = defineCommand({
  usage: '',
  args: [0, 0],
  flags: { print: { type: 'boolean', about: 'Print the address instead of opening it' } },
  details: `
Opens the page of the project, or that of the workspace or the service if no project is
known. Prints the address where no browser can be opened.`,
  async run(ctx, { flags }) {
    // --print needs no service, and a page needs no token.
    const page = pageOf(await locate(ctx, { timeoutMs: 3_000, retries: 0 }).catch(() => ctx))
    if (ctx.flags.json) return ctx.out.show({ url: page }, () => ({ columns: [], rows: [] }))
    if (flags.print) return ctx.out.line(page)
    const url = requireSetting(readSettings(ctx), 'url')
    const isPage = await requestPage(page).catch((error: NodeJS.ErrnoException) => {
      const code = error.code ?? 'UNKNOWN'
      throw new ConnectionError(`${url} cannot be reached (${code}).`, code)
    })
    if (!isPage) {
      throw new CliError(
        'notFound',
        `There is no page at ${page}: the service runs without its dashboard.`,
        `${url}/docs, which describes the API`,
      )
    }
    if (await openPage(ctx.env, page)) return ctx.out.note(`A browser opens ${page}`)
    ctx.out.note('No browser can be opened here. The address is:')
    ctx.out.line(page)
  },
})

function pageOf(ctx: Context): string {
  const settings = readSettings(ctx)
  const url = requireSetting(settings, 'url')
  const workspace = settings.find('workspace')?.value
  const project = workspace === undefined ? undefined : settings.find('project')?.value
  return [url, ...[workspace, project].flatMap((name) => (name ? [encodeURIComponent(name)] : []))].join('/')
}
