/** Signs in a command line: its code is entered here, by a person who is signed in. */
import { ApiError, type WaitingDevice } from '@coffer/sdk'
import './plain.css'
import { button, element, facts, paragraph, time } from './element.ts'
import { createChoices, createForm, textField } from './form.ts'
import { note, showStep, startPage } from './page.ts'
import { api, findPerson, hasStatus, sentenceOf, signOut } from './service.ts'
import { createSignIn } from './sign-in.ts'

startPage(start)

async function start(): Promise<void> {
  const userCode = new URLSearchParams(location.hash.slice(1)).get('code') ?? ''
  try {
    const person = await findPerson()
    if (person) await lookUp(userCode, person.email)
    else showSignIn(userCode)
  } catch (error) {
    showStep('This page cannot be opened now', paragraph(sentenceOf(error)), button('Try again', 'primary', start))
  }
}

function showSignIn(userCode: string): void {
  showStep(
    'Sign in to connect a device',
    paragraph('A command line asks to act for you. Sign in here first; then you decide.'),
    ...(userCode === '' ? [] : [facts(['Code', codeOf(userCode)])]),
    createSignIn({ onSignedIn: (email) => lookUp(userCode, email) }),
  )
}

/** The device has put its code into the address, unless a person types it. */
async function lookUp(userCode: string, email: string): Promise<void> {
  if (userCode === '') return showCodeForm(email)
  try {
    showDevice(userCode, await api.auth.readDevice({ userCode }), email)
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    showCodeForm(email, sentenceOf(error))
  }
}

function showCodeForm(email: string, problem?: string): void {
  const code = textField('userCode', 'Code', {
    className: 'code',
    autocomplete: 'off',
    autocapitalize: 'characters',
    spellcheck: false,
    required: true,
    maxLength: 40,
    hint: 'Eight letters, with or without the dash.',
  })
  const form = createForm({
    label: 'Continue',
    fields: [code],
    async submit() {
      const userCode = code.input.value.trim()
      showDevice(userCode, await api.auth.readDevice({ userCode }), email)
    },
    explain: (error) => (hasStatus(error, 404) ? `userCode: ${error.message}` : explain(error, '')),
  })
  showStep(
    'Connect a device',
    ...(problem === undefined ? [] : [note('bad', problem)]),
    paragraph('Enter the code that ', element('code', {}, 'coffer login'), ' shows.'),
    form,
    createAccount(email, ''),
  )
}

function showDevice(userCode: string, device: WaitingDevice, email: string): void {
  const answer = (approve: boolean) => async () => {
    await api.auth.answerDevice({ userCode, approve })
    showAnswered(approve, device)
  }
  const choices = createChoices(
    [
      ['Approve', 'primary', answer(true)],
      ['Deny', 'plain', answer(false)],
    ],
    (error) => (hasStatus(error, 404) ? void showCodeForm(email, error.message) : explain(error, userCode)),
  )
  showStep(
    'Sign in this device?',
    facts(
      ['Code', codeOf(userCode)],
      ['Program', device.clientId],
      ['Address', device.ip],
      ['Calls itself', device.userAgent || 'nothing'],
      ['Asked', time(device.createdAt)],
    ),
    note(
      'warn',
      'Approve only if you started this yourself just now, and your terminal shows the same code. The device can then do everything that you can.',
    ),
    choices,
    createAccount(email, userCode),
  )
}

/** Says for whom the device will act. */
function createAccount(email: string, userCode: string): HTMLElement {
  const change = async () => {
    await signOut()
    showSignIn(userCode)
  }
  return element(
    'div',
    { className: 'account' },
    paragraph('Signed in as ', element('b', {}, email)),
    createChoices([['Use another account', 'quiet', change]]),
  )
}

/** A session that has ended meanwhile is begun again, with the same code. */
const explain = (error: unknown, userCode: string) =>
  hasStatus(error, 401) ? void showSignIn(userCode) : sentenceOf(error)

function showAnswered(isApproved: boolean, { clientId }: WaitingDevice): void {
  if (isApproved)
    showStep('Approved', paragraph(`${clientId} will be signed in within seconds. You can close this page.`))
  else showStep('Denied', paragraph(`${clientId} was not signed in. You can close this page.`))
}

/** As the device shows it, however it was typed. */
function codeOf(userCode: string): HTMLElement {
  const letters = userCode.toUpperCase().replace(/[\s-]/g, '')
  return element('span', { className: 'code' }, letters.replace(/.{4}(?=.)/g, '$&-'))
}
