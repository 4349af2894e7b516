/** Sets a new password with the link of the operator. The token stays behind the # of the address until it is used. */
import './plain.css'
import { element, paragraph } from './element.ts'
import { createForm, textField } from './form.ts'
import { showIncomplete, showStep, startPage } from './page.ts'
import { api, hasStatus, sentenceOf } from './service.ts'

startPage(start)

async function start(): Promise<void> {
  const token = location.hash.slice(1)
  if (token === '') return showIncomplete()
  const password = textField('password', 'New password', {
    type: 'password',
    autocomplete: 'new-password',
    required: true,
    minLength: 12,
    maxLength: 256,
    hint: '12 characters or more.',
  })
  const form = createForm({
    label: 'Set password',
    fields: [password],
    async submit() {
      await api.auth.resetPassword({ token, password: password.input.value })
      password.input.value = ''
      history.replaceState(null, '', location.pathname)
      showDone()
    },
    explain: (error) => (hasStatus(error, 404) ? void showGone() : sentenceOf(error)),
  })
  showStep('Set a new password', paragraph('Everybody who is signed in to your account is signed out by it.'), form)
  password.input.focus()
}

function showDone(): void {
  showStep(
    'Your password is set',
    paragraph('If you use an authenticator app, you need its code as before.'),
    paragraph(element('a', { href: '/login', className: 'button primary' }, 'Sign in')),
  )
}

function showGone(): void {
  showStep(
    'This link does not work',
    paragraph(
      'It was used, has expired or was replaced by a newer one. Ask the operator of this service for a new one.',
    ),
  )
}
