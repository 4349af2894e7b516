/** The first run of an installation, in the browser. */
import type { Page } from 'playwright-core'
import { onTestFinished } from 'vitest'
import { password, startService, type TestService } from './harness.ts'
import { setupCode } from './setup-code.ts'

/** Without an account; stopped with the test. */
export async function startEmptyService(settings: Record<string, string> = {}): Promise<TestService> {
  const service = await startService(settings)
  onTestFinished(() => service.stop())
  return service
}

/** The address that the service prints at its start. */
export const setupLink = `/setup#code=${encodeURIComponent(setupCode)}`

type Account = { readonly password?: string; readonly workspace?: string; readonly slug?: string }

export async function fillAccount(page: Page, account: Account = {}): Promise<void> {
  await page.getByLabel('Your name').fill('Ada')
  await page.getByLabel('Email').fill('ada@example.com')
  await page.getByLabel('Password').fill(account.password ?? password)
  if (account.workspace !== undefined) await page.getByLabel('Workspace').fill(account.workspace)
  if (account.slug !== undefined) await page.getByLabel('Slug').fill(account.slug)
}
