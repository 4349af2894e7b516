/** Environments may be called like a property that every object has. */
import { expect, onTestFinished, test } from 'vitest'
import { openPage } from '../../../../test/browser.ts'
import { createProject, registerOwner, startService } from '../../../../test/harness.ts'

test('the table shows environments called constructor and toString, and compares them', async () => {
  const service = await startService()
  onTestFinished(() => service.stop())
  const { session } = await registerOwner(service)
  await createProject(service, session, 'api')
  const project = '/v1/workspace/main/project/api'
  for (const name of ['constructor', 'toString']) {
    const made = await service.call('POST', `${project}/environment`, { token: session, body: { name } })
    expect(made.status, made.text).toBe(201)
    const secrets = [{ key: `ONLY_${name.toUpperCase()}`, value: name }]
    await service.call('POST', `${project}/secret`, { token: session, body: { environments: [name], secrets } })
  }
  const page = await openPage(service, { path: '/main/api', session })
  for (const name of ['constructor', 'toString']) await page.getByRole('columnheader', { name }).waitFor()
  await page.getByText('ONLY_CONSTRUCTOR').first().waitFor()
  await page.getByText('ONLY_TOSTRING').first().waitFor()
  await page.goto(`${service.url}/main/api/compare?from=constructor&to=toString`)
  await page.getByText('ONLY_CONSTRUCTOR').first().waitFor()
  await page.getByText('ONLY_TOSTRING').first().waitFor()
})
