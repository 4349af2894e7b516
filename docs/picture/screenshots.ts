/**
 * `npm run screenshots`: pictures of every page, light, dark and on a phone, into docs/picture/pages, which is not
 * committed; and the two pictures of README.md.
 */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, type BrowserContextOptions, chromium } from 'playwright-core'
import { buildDashboard, isFresh } from '../../dashboard/build.ts'
import { browserOptions } from '../../test/browser-program.ts'
import { startListening } from '../../test/start-server.ts'
import { createExample, type Example } from './example-data.ts'

const folder = join(import.meta.dirname, 'pages')
const shop = '/acme/shop'

/** Pages of somebody who is signed in. */
const pages: Readonly<Record<string, string>> = {
  workspaces: '/?all=true',
  projects: '/acme',
  grid: shop,
  'grid-missing': `${shop}?missing=production`,
  compare: `${shop}/compare?from=staging&to=production`,
  history: `${shop}/history?environment=staging`,
  syncs: `${shop}/syncs`,
  shares: `${shop}/shares`,
  trash: `${shop}/trash`,
  'project-settings': `${shop}/settings`,
  members: '/acme/-/access/members',
  'service-accounts': '/acme/-/access/service-accounts',
  tokens: '/acme/-/access/tokens',
  identities: '/acme/-/access/identities',
  who: '/acme/-/access/who?project=shop',
  audit: '/acme/-/audit',
  'workspace-settings': '/acme/-/settings',
  me: '/me',
  device: '/device',
}

const publicPages = ({ shareToken, inviteToken }: Example): Readonly<Record<string, string>> => ({
  login: '/login',
  share: `/share/${shareToken}`,
  invite: `/invite#${inviteToken}`,
})

const screens: Readonly<Record<string, BrowserContextOptions>> = {
  light: { viewport: { width: 1440, height: 900 }, colorScheme: 'light' },
  dark: { viewport: { width: 1440, height: 900 }, colorScheme: 'dark' },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: 'light', hasTouch: true, isMobile: true },
}

/** The pictures in README.md. */
const shown: Readonly<Record<string, string>> = { 'grid-light': 'grid.png', 'compare-dark': 'compare.png' }

async function takePictures(browser: Browser, url: string, paths: Readonly<Record<string, string>>, session?: string) {
  for (const [screen, options] of Object.entries(screens)) {
    const context = await browser.newContext({ ...options, baseURL: url, reducedMotion: 'reduce' })
    if (session !== undefined) {
      const place = { domain: '127.0.0.1', path: '/', secure: true, httpOnly: true, sameSite: 'Strict' } as const
      await context.addCookies([{ name: '__Host-coffer_session', value: session, ...place }])
    }
    const page = await context.newPage()
    for (const [name, path] of Object.entries(paths)) {
      await page.goto('about:blank')
      await page.goto(path, { waitUntil: 'networkidle' })
      await page.screenshot({ path: join(folder, `${name}-${screen}.png`) })
    }
    await context.close()
  }
}

if (!isFresh()) await buildDashboard()
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
const dataDir = mkdtempSync(join(tmpdir(), 'coffer-screenshots-'))
const service = await startListening({ COFFER_DATA_DIR: dataDir })
const browser = await chromium.launch(await browserOptions())
try {
  await takePictures(browser, service.url, { setup: '/setup' })
  const example = await createExample(service.url)
  await takePictures(browser, service.url, publicPages(example))
  await takePictures(browser, service.url, pages, example.session)
  for (const [name, file] of Object.entries(shown)) {
    copyFileSync(join(folder, `${name}.png`), join(import.meta.dirname, file))
  }
} finally {
  await browser.close()
  await service.stop()
  rmSync(dataDir, { recursive: true, force: true })
}
