/** The wizard of every provider, drawn from the server's forms, up to the review. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openPage } from '../../../../test/browser.ts'
import { startVendorService, type VendorService } from '../../../../test/sync.ts'
import { walkToReview } from '../../../../test/sync-wizard.ts'
import { everyProvider } from '../../../../test/vendor/every.ts'

let vendors: VendorService
beforeAll(async () => {
  vendors = await startVendorService()
  await vendors.project.set('development', { ALPHA: 'one' })
})
afterAll(() => vendors.service.stop())

test.each(everyProvider)('$slug', async (provider) => {
  const { fake, project, owner, service } = vendors.open(provider)
  const page = await openPage(service, { session: owner.session, path: `/main/${project.slug}/syncs` })
  const { defaultName } = (
    await service.call<{ slug: string; defaultName: string }[]>('GET', '/v1/sync', { token: owner.session })
  ).body.find(({ slug }) => slug === provider.slug) ?? { defaultName: '' }
  const isFirst = page.getByRole('button', { name: defaultName, exact: true })
  const another = page.getByRole('button', { name: 'New sync' })
  await isFirst.or(another).first().waitFor()
  if (await another.isVisible()) await another.click()
  await isFirst.click()
  const mapping = { ...fake.options, ...provider.mapping, environment: project.idOf('development') }
  await walkToReview(page, { auth: fake.credential, target: fake.target, mapping })
  await page.getByText('1 created').waitFor()
  expect(await page.getByRole('button', { name: 'Start' }).isEnabled()).toBe(true)
})
