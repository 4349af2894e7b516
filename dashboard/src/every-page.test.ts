/** Every page for every role: what is offered works, what is not allowed is not offered and not even asked for. */
import type { Scope } from '@coffer/contract/field'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { expectAccessible, openPage } from '../../test/browser.ts'
import { addUser, registerOwner, startService, type TestService, type TestUser } from '../../test/harness.ts'
import { createSecretProject, type SecretProject } from '../../test/secret-project.ts'
import { isDeep } from '../../test/tier.ts'

/** Refused pages say who can help, and offer nothing to fill in or to press. */
const refusal = /for admins|needs an admin|Only admins|Ask an admin/

/** Roles that may use a page; the others are told whom to ask. */
const everyone = ['owner', 'admin', 'project admin', 'developer', 'member', 'one environment', 'two grants'] as const
type Role = (typeof everyone)[number]
const writers: readonly Role[] = ['owner', 'admin', 'project admin', 'developer', 'one environment', 'two grants']
const admins: readonly Role[] = ['owner', 'admin', 'project admin']
const wholeAdmins: readonly Role[] = ['owner', 'admin']

const pages: readonly { readonly path: string; readonly link?: string; readonly roles: readonly Role[] }[] = [
  { path: '/?all=true', roles: everyone },
  { path: '/me', roles: everyone },
  { path: '/main', roles: everyone },
  { path: '/main/PROJECT', link: 'Secrets', roles: everyone },
  { path: '/main/PROJECT/compare', link: 'Compare', roles: everyone },
  { path: '/main/PROJECT/history', link: 'History', roles: everyone },
  { path: '/main/PROJECT/syncs', link: 'Syncs', roles: admins },
  { path: '/main/PROJECT/shares', link: 'Shares', roles: writers },
  { path: '/main/PROJECT/trash', link: 'Trash', roles: everyone },
  { path: '/main/PROJECT/settings', link: 'Settings', roles: admins },
  { path: '/main/-/access/tokens', roles: everyone },
  { path: '/main/-/access/members', roles: wholeAdmins },
  { path: '/main/-/access/service-accounts', roles: wholeAdmins },
  { path: '/main/-/access/identities', roles: wholeAdmins },
  { path: '/main/-/access/who', roles: wholeAdmins },
  { path: '/main/-/audit', link: 'Audit', roles: wholeAdmins },
  { path: '/main/-/settings', roles: wholeAdmins },
]

let service: TestService
let project: SecretProject
const people = new Map<Role, TestUser>()

beforeAll(async () => {
  service = await startService()
  const owner = await registerOwner(service)
  project = await createSecretProject(service, owner.session)
  await project.set('development', { DATABASE_URL: 'canary-development', API_KEY: 'canary-key' })
  await project.set('production', { DATABASE_URL: 'canary-production' })
  const [workspace] = (await service.call<{ id: string }[]>('GET', '/v1/workspace', { token: owner.session })).body
  const workspaceId = workspace?.id ?? ''
  const nothing: Scope = { all: false, teams: [], projects: [], environments: [] }
  const join = (name: string, role: 'admin' | 'developer' | 'member', scope: Scope = { ...nothing, all: true }) =>
    addUser(service, `${name}@example.com`, { workspaceId, role, scope })
  people.set('owner', owner)
  people.set('admin', await join('admin', 'admin'))
  people.set('project admin', await join('project-admin', 'admin', { ...nothing, projects: [project.id] }))
  people.set('developer', await join('developer', 'developer'))
  people.set('member', await join('member', 'member'))
  const development = { ...nothing, environments: [project.idOf('development')] }
  people.set('one environment', await join('one-environment', 'developer', development))
  const further = [{ role: 'developer', scope: development }] as const
  const scope = { ...nothing, projects: [project.id] }
  people.set(
    'two grants',
    await addUser(service, 'two-grants@example.com', { workspaceId, role: 'member', scope, further }),
  )
})
afterAll(() => service.stop())

/** Seventeen pages, in the deep tier each with a check of its accessibility. */
const patienceMs = 1_200_000

// Two roles show every page, allowed and refused; the deep tier has all of them.
const checked = isDeep ? everyone : (['owner', 'member'] as const)

/** Most of the time of a page is spent waiting until it is without requests: meanwhile the other tabs go on. */
const tabCount = 3

describe.each(checked)('%s', (role) => {
  const session = () => people.get(role)?.session ?? ''

  /** Visits the pages one after the other in one tab. */
  async function visit(page: Page, some: typeof pages): Promise<void> {
    const refused: string[] = []
    page.on('response', (response) => {
      if (response.status() >= 400) refused.push(`${response.status()} ${response.url()}`)
    })
    for (const { path, roles } of some) {
      await page.goto(path.replace('PROJECT', project.slug), { waitUntil: 'networkidle' })
      await page.locator('h1, h2').first().waitFor()
      // A busy machine may be without requests for a while before the page is whole.
      await page.locator('main [aria-busy=true]').first().waitFor({ state: 'detached' })
      const sentence = page.locator('main').getByText(refusal)
      if (!roles.includes(role)) await sentence.first().waitFor()
      const isRefused = (await sentence.count()) > 0
      expect(isRefused, `${role} on ${path}`).toBe(!roles.includes(role))
      const controls = page.locator('main').locator('button, input, select, textarea')
      if (isRefused) expect(await controls.count(), `${role} on ${path}`).toBe(0)
      expect(refused, `${role} on ${path}`).toEqual([])
      expect(await page.content()).not.toContain('canary')
      if (isDeep) await expectAccessible(page)
    }
  }

  test('sees the pages that they may use, and a sentence on the others', { timeout: patienceMs }, async () => {
    const tabs: Page[] = []
    for (let tab = 0; tab < tabCount; tab++) {
      tabs.push(await openPage(service, { session: session(), path: '/?all=true' }))
    }
    const partOf = (tab: number) => pages.filter((_, index) => index % tabCount === tab)
    await Promise.all(tabs.map((page, tab) => visit(page, partOf(tab))))
  })

  test('is offered links to exactly these pages', async () => {
    const page = await openPage(service, { session: session(), path: `/main/${project.slug}` })
    const tabs = page.getByRole('navigation', { name: 'Project' })
    await tabs.getByRole('link', { name: 'Secrets' }).waitFor()
    const offered = new Set([
      ...(await tabs.getByRole('link').allTextContents()),
      ...(await page.locator('#side a').allTextContents()),
    ])
    for (const { link, path, roles } of pages) {
      if (link !== undefined) expect(offered.has(link), `${link} (${path})`).toBe(roles.includes(role))
    }
  })
})
