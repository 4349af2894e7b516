/** The page behind a share link. Nothing is used up before the reader presses Show. */
import { ConnectionError, type ShareMeta } from '@coffer/sdk'
import { ShareEnvelopeError } from '@coffer/sdk/share-envelope'
import './plain.css'
import { button, element, facts, paragraph, time } from './element.ts'
import { createForm, textField } from './form.ts'
import { showStep, startPage } from './page.ts'
import { api, hasStatus, sentenceOf } from './service.ts'
import { createOpening, isWhole, type Link, type Opened } from './share-opening.ts'
import { showContent } from './shared-content.ts'

startPage(start)

async function start(): Promise<void> {
  const link = { token: location.pathname.split('/')[2] ?? '', fragment: location.hash }
  // Browsers decrypt only on pages that nobody on the way can have changed.
  if (link.fragment !== '' && !isSecureContext) return showInsecure()
  if (link.fragment !== '' && !(await isWhole(link.fragment))) return showIncomplete()
  if (link.token === '') return showGone()
  try {
    const meta = await api.share.readMeta({ token: link.token })
    if (meta.kind === 'e2e' && link.fragment === '') return showIncomplete()
    showClosed(link, meta)
  } catch (error) {
    if (hasStatus(error, 404)) return showGone()
    showStep('The link cannot be opened now', paragraph(sentenceOf(error)), button('Try again', 'primary', start))
  }
}

function showClosed(link: Link, meta: ShareMeta): void {
  const open = createOpening(link, meta)
  const password = textField('password', 'Password', {
    type: 'password',
    // A password manager would offer that of an account.
    autocomplete: 'off',
    required: true,
    maxLength: 256,
    hint: 'The sender has it. After too many wrong ones, the link is locked for good.',
  })
  const form = createForm({
    label: 'Show',
    fields: meta.hasPassword ? [password] : [],
    submit: async () => reveal(await open(meta.hasPassword ? password.input.value : undefined), meta),
    explain(error) {
      if (!hasStatus(error, 404)) return explainOpening(error)
      showGone()
      return undefined
    },
  })
  showStep(
    'Somebody shared a secret with you',
    facts(
      ['Opens', meta.viewsLeft === 1 ? 'once' : `${meta.viewsLeft} more times`],
      ['Until', time(meta.expiresAt)],
      ['Size', sizeOf(meta.sizeBytes)],
      ['Sealed', meta.kind === 'e2e' ? 'end to end: only this link opens it' : 'by the service'],
    ),
    paragraph(
      meta.viewsLeft === 1
        ? 'Show it when you can save it: after that, the link does not work any more.'
        : 'Each time that it is shown counts.',
    ),
    form,
  )
}

/** The key has done its work: it must not stay in the address bar for screenshots and for the next person here. */
function reveal(opened: Opened, { expiresAt }: ShareMeta): void {
  history.replaceState(null, '', location.pathname)
  showContent(opened, expiresAt)
}

function explainOpening(error: unknown): string {
  if (hasStatus(error, 403)) return 'password: this password is wrong.'
  if (error instanceof ConnectionError) {
    return 'No answer arrived. Press Show again within a minute: if the content was on its way, this costs no second view.'
  }
  if (error instanceof ShareEnvelopeError)
    return 'The content is damaged and cannot be opened. Ask the sender for a new link.'
  return sentenceOf(error)
}

function showGone(): void {
  showStep(
    'This link does not work',
    paragraph('It has expired, was opened before, was revoked, or never existed. Ask the sender for a new one.'),
  )
}

function showIncomplete(): void {
  showStep(
    'This link is incomplete',
    paragraph('A part of it after the # is missing or was changed, and without it nobody can read the content.'),
    paragraph('Open the link again from the message that you got, and copy all of it. Nothing was used up.'),
  )
}

function showInsecure(): void {
  showStep(
    'This link needs https',
    paragraph('Browsers decrypt only on pages that came over https. Nothing was used up.'),
    paragraph('Ask the sender for a link with https, or use ', element('code', {}, 'coffer share --open'), '.'),
  )
}

function sizeOf(bytes: number): string {
  return bytes < 1024 ? `${bytes} bytes` : `${Math.round(bytes / 1024)} KB`
}
