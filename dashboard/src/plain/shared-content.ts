/** The content of a share, on the page for a minute: as text, with buttons that copy it. */

import { startCountdown } from './countdown.ts'
import { button, element, paragraph, time } from './element.ts'
import { announce, showStep } from './page.ts'
import type { Opened } from './share-opening.ts'

const copiedMs = 1_500

export function showContent({ content, viewsLeft }: Opened, expiresAt: string): void {
  const items = content.t === 'kv' ? content.items : [{ name: 'Text', value: content.v }]
  const countdown = startCountdown(() => showRemoved(viewsLeft))
  const rows = items.map(({ name, value }) => createValue(name, value, items.length === 1 ? 'primary' : 'plain'))
  const all = items.length > 1 ? [copyButton('Copy all', 'primary', () => items.map(toLine).join('\n'))] : []
  showStep('Shared with you', paragraph(...leftText(viewsLeft, expiresAt)), countdown.row, ...all, ...rows)
  // Only a box that scrolls needs to be reached by keyboard.
  for (const box of document.querySelectorAll('pre')) {
    if (box.scrollHeight > box.clientHeight) box.tabIndex = 0
  }
}

function leftText(viewsLeft: number, expiresAt: string): (Node | string)[] {
  if (viewsLeft === 0) return ['The link does not work any more. Save the content now if you need it later.']
  return [`The link opens ${viewsLeft === 1 ? 'once more' : `${viewsLeft} more times`}, until `, time(expiresAt), '.']
}

function createValue(name: string, value: string, kind: 'primary' | 'plain'): HTMLElement {
  const box = element('pre', { dir: 'auto', role: 'region', ariaLabel: name }, value)
  if (value === '') box.append(element('span', { className: 'empty' }, 'empty'))
  const copy = copyButton('Copy', kind, () => value)
  copy.ariaLabel = `Copy ${name}`
  const head = element('div', { className: 'value-head' }, element('h2', { dir: 'auto' }, name), copy)
  return element('section', { className: 'value' }, head, box)
}

/** The text is made at the click: it is nowhere else. */
function copyButton(label: string, kind: 'primary' | 'plain', read: () => string): HTMLButtonElement {
  const copy = button(label, kind, async () => {
    try {
      await navigator.clipboard.writeText(read())
    } catch {
      announce('The browser does not allow copying here. Select the text instead.')
      copy.textContent = 'Select the text instead'
      return
    }
    announce(`${copy.ariaLabel ?? label}: done.`)
    copy.textContent = 'Copied'
    setTimeout(() => {
      copy.textContent = label
    }, copiedMs)
  })
  return copy
}

/** As a line of an .env file. Single quotes first: nothing expands what they hold. */
function toLine({ name, value }: { readonly name: string; readonly value: string }): string {
  if (/^[A-Za-z0-9_./:@%+,=-]*$/.test(value)) return `${name}=${value}`
  if (!/['\r]|\\$/.test(value)) return `${name}='${value}'`
  const escaped = value
    .replace(/[\\"$`]/g, '\\$&')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
  return `${name}="${escaped}"`
}

function showRemoved(viewsLeft: number): void {
  showStep(
    'Removed from this page',
    paragraph('Copies that you made, also in the clipboard, are still there.'),
    paragraph(
      viewsLeft === 0
        ? 'The link does not work any more.'
        : 'To see it again, open the link again from the message that you got.',
    ),
  )
}
