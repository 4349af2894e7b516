/** The frame of a plain page: one step at a time, with the focus and the live region where something has changed. */
import { applyTheme, storedTheme } from '../look/theme.ts'
import { element, paragraph } from './element.ts'

const main = requireElement('page')
const status = requireElement('status')

function requireElement(id: string): HTMLElement {
  const found = document.getElementById(id)
  if (!found) throw new Error(`The page has no element ${id}.`)
  return found
}

/** Starts the page, and starts it anew with another fragment: another link opened in the same tab loads no page. */
export function startPage(start: () => Promise<void>): void {
  try {
    applyTheme(storedTheme())
  } catch {
    // The browser allows no storage here: the page has the colours of the system.
  }
  addEventListener('hashchange', () => location.reload())
  void start()
}

let isFirstStep = true

/** Replaces what the page shows. Screen readers continue at the heading, except when the page has just been opened. */
export function showStep(title: string, ...children: readonly (Node | string)[]): void {
  const heading = element('h1', { tabIndex: -1 }, title)
  main.replaceChildren(heading, ...children)
  main.ariaBusy = null
  document.title = `${title} · Coffer`
  if (!isFirstStep) heading.focus()
  isFirstStep = false
}

/** For a link whose secret part is missing. */
export function showIncomplete(): void {
  showStep(
    'This link is incomplete',
    paragraph(
      'The part after the # is missing. Open the link again from the message that you got, and copy all of it.',
    ),
  )
}

/** Said by screen readers, and seen by nobody. */
export function announce(text: string): void {
  status.textContent = text
}

type NoteKind = 'bad' | 'warn' | 'good' | 'plain'

export function note(kind: NoteKind, ...children: readonly (Node | string)[]): HTMLElement {
  return element('p', { className: `note ${kind}`, ...(kind === 'bad' && { role: 'alert' }) }, ...children)
}
