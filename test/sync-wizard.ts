/** Walks the pages of the sync wizard like a person, with the answers of a fake vendor. */
import type { Locator, Page } from 'playwright-core'
import type { Values } from '../server/src/providers/provider.ts'
import { expectAccessible } from './browser.ts'

type Answers = { readonly auth: Values; readonly target: Values; readonly mapping: Values }

const maxForms = 12

/** Answers every form up to the review, and stops there. */
export async function walkToReview(page: Page, answers: Answers): Promise<void> {
  for (let forms = 0; forms < maxForms; forms++) {
    const form = page.locator('form')
    await form.waitFor()
    const step = (await page.evaluate<string>('location.pathname')).split('/').at(-1)
    if (step === 'review') return
    await expectAccessible(page)
    await openOptional(form)
    const known = step === 'auth' ? answers.auth : step === 'target' ? answers.target : answers.mapping
    for (const [name, value] of Object.entries(known)) await answer(form.locator(`[name="${name}"]`), value)
    const sent = await form.elementHandle()
    await form.getByRole('button').last().click()
    // A new form replaces the one that was sent, be it of the same step or of the next.
    const outcome = await page.waitForFunction((element) => {
      const refusal = element?.querySelector('.error, [role=alert]')
      return refusal ? refusal.textContent : !element?.isConnected
    }, sent)
    const refusal = await outcome.jsonValue()
    if (refusal !== true) throw new Error(`${step}: ${refusal}`)
  }
  throw new Error('the wizard does not end')
}

async function openOptional(form: Locator): Promise<void> {
  const closed = form.locator('details:not([open]) > summary')
  if ((await closed.count()) > 0) await closed.click()
}

async function answer(field: Locator, value: string): Promise<void> {
  if ((await field.count()) === 0) return
  const isSelect = await field.evaluate((element) => element.tagName === 'SELECT')
  if (isSelect) await field.selectOption(value)
  else await field.fill(value)
}
