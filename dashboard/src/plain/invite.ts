/** The page behind an invite link. The invite stays open until the person accepts it, declines it or creates an account. */
import type { FoundInvite } from '@coffer/sdk'
import './plain.css'
import { button, element, facts, paragraph, time } from './element.ts'
import { createChoices, createForm, textField } from './form.ts'
import { note, showIncomplete, showStep, startPage } from './page.ts'
import { api, findPerson, hasStatus, sentenceOf, signOut } from './service.ts'
import { createSignIn } from './sign-in.ts'

const token = location.hash.slice(1)
const rights = {
  member: 'Member: reads secrets',
  developer: 'Developer: reads and changes secrets',
  admin: 'Admin: changes everything',
} as const

startPage(start)

async function start(): Promise<void> {
  if (token === '') return showIncomplete()
  try {
    const [invite, person] = await Promise.all([api.member.lookUpInvite({ token }), findPerson()])
    if (!person) showNewAccount(invite)
    else if (person.email === invite.email) showAnswer(invite)
    else showOther(invite, person.email)
  } catch (error) {
    if (hasStatus(error, 404)) return showGone()
    showStep('The invite cannot be opened now', paragraph(sentenceOf(error)), button('Try again', 'primary', start))
  }
}

function showOffer(invite: FoundInvite, ...children: readonly Node[]): void {
  const { workspace, role, email, expiresAt } = invite
  showStep(
    `Join ${workspace.name}`,
    facts(['Invited', email], ['Your role', rights[role]], ['Until', time(expiresAt)]),
    ...children,
  )
}

function showAnswer(invite: FoundInvite): void {
  const accept = async () => enter((await api.member.acceptInvite({ token })).slug)
  const decline = async () => {
    await api.member.declineInvite({ token })
    showStep('Invite declined', paragraph('The admins of the workspace can see that. You can close this page.'))
  }
  const choices = createChoices(
    [
      ['Accept', 'primary', accept],
      ['Decline', 'plain', decline],
    ],
    (error) => {
      if (hasStatus(error, 401)) return void showSignIn(invite)
      if (hasStatus(error, 404)) return void showGone()
      return sentenceOf(error)
    },
  )
  showOffer(invite, paragraph('You are signed in with the invited address.'), choices)
}

function showOther(invite: FoundInvite, email: string): void {
  const leave = async () => {
    await signOut()
    showNewAccount(invite)
  }
  showOffer(
    invite,
    note('warn', `You are signed in as ${email}, but this invite is for ${invite.email}.`),
    createChoices([['Sign out and continue', 'primary', leave]]),
  )
}

/** Both ways are always offered, because the page must not tell whether the address has an account. */
function showNewAccount(invite: FoundInvite): void {
  const email = textField('email', 'Email', {
    type: 'email',
    autocomplete: 'username',
    value: invite.email,
    readOnly: true,
  })
  const name = textField('name', 'Your name', {
    autocomplete: 'name',
    required: true,
    maxLength: 64,
    hint: 'Others in the workspace see it.',
  })
  const password = textField('password', 'Password', {
    type: 'password',
    autocomplete: 'new-password',
    required: true,
    minLength: 12,
    maxLength: 256,
    hint: '12 characters or more.',
  })
  const form = createForm({
    label: 'Create account and join',
    fields: [email, name, password],
    async submit() {
      await api.auth.register({
        email: invite.email,
        name: name.input.value.trim(),
        password: password.input.value,
        inviteToken: token,
      })
      enter(invite.workspace.slug)
    },
    explain: (error) => (hasStatus(error, 403) ? void showGone() : sentenceOf(error)),
  })
  const other = button('I have an account', 'plain', () => showSignIn(invite))
  showOffer(invite, element('h2', {}, 'Create your account'), form, other)
}

function showSignIn(invite: FoundInvite): void {
  const form = createSignIn({ email: invite.email, onSignedIn: async () => showAnswer(invite) })
  const other = button('Create an account instead', 'plain', () => showNewAccount(invite))
  showOffer(invite, element('h2', {}, 'Sign in to answer'), form, other)
}

/** The invite is used up: Back must not lead to it. */
const enter = (slug: string) => location.replace(`/${slug}`)

function showGone(): void {
  showStep(
    'This invite does not work',
    paragraph('It was used, declined or withdrawn, or it has expired. Ask an admin of the workspace for a new one.'),
  )
}
