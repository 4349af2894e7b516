/** The grid of a project in Chromium: opening it, finding cells, and looking for what must not be there. */
import type { Locator, Page } from 'playwright-core'
import { openPage } from './browser.ts'
import type { TestService } from './harness.ts'
import type { SecretProject } from './secret-project.ts'

type GridOptions = { readonly session: string; readonly query?: string; readonly expectedErrors?: readonly RegExp[] }

export async function openGrid(service: TestService, project: SecretProject, options: GridOptions): Promise<Page> {
  const { session, query = '', expectedErrors = [] } = options
  const context = { permissions: ['clipboard-read', 'clipboard-write'] }
  const page = await openPage(service, { session, path: `/main/${project.slug}${query}`, expectedErrors, context })
  await page.getByRole('grid').waitFor()
  // Revealed values stay, however long the next steps take: their 30 seconds never pass.
  await page.clock.setFixedTime(Date.now())
  return page
}

export const rowOf = (page: Page, name: string): Locator =>
  page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: new RegExp(`^${name}( |$)`) }) })

/** `column` counts environments from 0: development, staging, production. */
export const cellOf = (page: Page, name: string, column: number): Locator =>
  rowOf(page, name).getByRole('gridcell').nth(column)

/** Clicks at the left: the buttons of a cell are at its right. */
export const focusCell = (page: Page, name: string, column: number): Promise<void> =>
  cellOf(page, name, column).click({ position: { x: 20, y: 18 } })

/** Edits the value of a cell in place. */
export async function typeInto(page: Page, name: string, column: number, text: string): Promise<void> {
  await focusCell(page, name, column)
  await page.keyboard.press('Enter')
  await cellOf(page, name, column).getByRole('textbox').fill(text)
  await page.keyboard.press('Enter')
}

export async function saveAll(page: Page): Promise<void> {
  await page.keyboard.press('Control+s')
  await page.getByRole('dialog').getByRole('button', { name: /^Save/ }).click()
}

/** Everything that a page could leak into: its elements, its address and title, and what the browser stores. */
export const tracesOf = (page: Page) =>
  page.evaluate<string>(
    'JSON.stringify([document.documentElement.outerHTML, location.href, document.title, { ...localStorage }, { ...sessionStorage }])',
  )

export const clipboardOf = (page: Page) => page.evaluate<string>('navigator.clipboard.readText()')

/** The text of the row and the cell that have the focus. */
export const focusOf = (page: Page) =>
  page.evaluate<string>(
    `(() => { const cell = document.activeElement; const row = cell?.closest('[role=row]');
      return (row?.firstElementChild?.querySelector('i')?.textContent ?? row?.firstElementChild?.textContent ?? '') + ' ' + cell?.closest('[aria-colindex]')?.getAttribute('aria-colindex') })()`,
  )
