/** Pages of a service in a real Chromium, watched for everything that must never happen on any page. */
import axe, { type AxeResults, type RunOptions } from 'axe-core'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { browserOptions } from './browser-program.ts'
import { engine, type TestService } from './harness.ts'

type OpenOptions = {
  /** Session of the person who is signed in. */
  readonly session?: string
  readonly path?: string
  /** Console errors that the test provokes, such as a refused request. All others fail the test. */
  readonly expectedErrors?: readonly RegExp[]
  readonly context?: BrowserContextOptions
  /** Runs in each page before its own scripts. */
  readonly initScript?: string
}

/** One for each process of the test runner: pages of one browser share the clipboard. It ends with its process. */
let launching: Promise<Browser> | undefined

/** On a machine that stalls for seconds, toasts would be gone before anybody looks, and requests be given up. */
const patience = `{
  const start = globalThis.setTimeout
  const toastMs = 6000
  globalThis.setTimeout = (work, ms, ...rest) => start(work, ms === toastMs ? 2 ** 31 - 1 : ms, ...rest)
  const timeout = AbortSignal.timeout
  AbortSignal.timeout = (ms) => timeout.call(AbortSignal, Math.max(ms, 300_000))
};`

/** Opens a page in a profile of its own; the profile is closed with the test. */
export async function openPage(service: TestService, options: OpenOptions = {}): Promise<Page> {
  launching ??= browserOptions().then((program) => chromium.launch({ timeout: 180_000, ...program }))
  const browser = await launching
  const context = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    reducedMotion: 'reduce',
    baseURL: service.url,
    ...options.context,
  })
  // Ends what hangs; nothing is measured by it.
  context.setDefaultTimeout(180_000)
  await context.addInitScript(patience + (options.initScript ?? ''))
  const { session } = options
  if (session !== undefined) {
    const place = { domain: '127.0.0.1', path: '/', secure: true, httpOnly: true, sameSite: 'Strict' } as const
    await context.addCookies([{ name: '__Host-coffer_session', value: session, ...place }])
  }
  const page = await context.newPage()
  const problems = watch(page, service.url, options.expectedErrors ?? [])
  onTestFinished(async ({ task }) => {
    if (task.result?.state === 'fail') console.error(`The page at the end of "${task.name}":\n${await look(page)}`)
    await context.close()
    expect(problems).toEqual([])
  })
  await page.goto(options.path ?? '/')
  return page
}

/** The end of the text of the page when a test failed: dialogs and menus are there, and it often tells the reason. */
async function look(page: Page): Promise<string> {
  const seen = page.evaluate<string>('location.pathname + "\\n" + document.body.innerText.slice(-3000)')
  return seen.catch(() => 'It could not be read.')
}

/** Holds back requests to these addresses, with `asked` for the first of them, until the test releases them. */
export async function holdRequests(page: Page, url: RegExp): Promise<{ asked: Promise<void>; release(): void }> {
  const asked = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  await page.route(url, async (route) => {
    asked.resolve()
    await released.promise
    await route.continue()
  })
  return { asked: asked.promise, release: released.resolve }
}

/** Console errors, uncaught errors, violations of the content security policy, and requests to other origins. */
function watch(page: Page, origin: string, expected: readonly RegExp[]): string[] {
  const problems: string[] = []
  const report = (text: string) => {
    if (!expected.some((pattern) => pattern.test(text))) problems.push(text)
  }
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) report(`console: ${message.text()}`)
  })
  page.on('pageerror', (error) => report(`uncaught: ${error.message}`))
  page.on('request', (request) => {
    const url = request.url()
    if (!url.startsWith(`${origin}/`) && !url.startsWith('blob:') && !url.startsWith('data:')) {
      report(`request to another origin: ${url}`)
    }
  })
  return problems
}

/** Describing everything that is right would take most of the time. */
const wcag: RunOptions = {
  runOnly: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22a', 'wcag22aa'] },
  resultTypes: ['violations'],
}

/**
 * No violation of WCAG 2.2, levels A and AA, in the page as it is now, open overlays included. Pages are the same in front
 * of either engine, so that they are checked on one.
 */
export async function expectAccessible(page: Page): Promise<void> {
  if (engine === 'postgres') return
  // Axe is run in the page itself, so that it would not see into a frame.
  expect(page.frames()).toHaveLength(1)
  if (!(await page.evaluate<boolean>('"axe" in window'))) await page.evaluate(axe.source)
  const { violations } = await page.evaluate<AxeResults>(`axe.run(document, ${JSON.stringify(wcag)})`)
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(' ')).join(', ')}`)
  expect(found).toEqual([])
}
