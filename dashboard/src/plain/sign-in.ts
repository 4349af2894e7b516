/** Signs in on the page itself, so that the code or the invite in its address stays where it is. */
import { createForm, textField } from './form.ts'
import { api, hasStatus, sentenceOf } from './service.ts'

type SignInOptions = {
  /** Given if only one account will do. */
  readonly email?: string
  readonly onSignedIn: (email: string) => Promise<void>
}

/** The code of the second factor is asked for only if the account has one. */
export function createSignIn({ email: known, onSignedIn }: SignInOptions): HTMLFormElement {
  const email = textField('email', 'Email', {
    type: 'email',
    autocomplete: 'username',
    required: true,
    value: known ?? '',
    readOnly: known !== undefined,
  })
  const password = textField('password', 'Password', {
    type: 'password',
    autocomplete: 'current-password',
    required: true,
    maxLength: 256,
  })
  const code = textField('code', 'Code', {
    autocomplete: 'one-time-code',
    maxLength: 64,
    spellcheck: false,
    hint: 'The six digits of your authenticator app, or a recovery code.',
  })
  code.row.hidden = true

  return createForm({
    label: 'Sign in',
    fields: [email, password, code],
    async submit() {
      const typed = code.input.value.replace(/\s/g, '')
      const { user } = await api.auth.login({
        email: email.input.value.trim(),
        password: password.input.value,
        ...(typed !== '' && { code: typed }),
      })
      password.input.value = ''
      await onSignedIn(user.email)
    },
    explain(error) {
      if (hasStatus(error, 401) && error.message.startsWith('code:') && code.row.hidden) {
        code.row.hidden = false
        code.input.required = true
        code.input.focus()
        return undefined
      }
      return sentenceOf(error)
    },
  })
}
