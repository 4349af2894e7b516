/** Signs in a person, then opens the page that they asked for. */
import './plain.css'
import { button, paragraph } from './element.ts'
import { showStep, startPage } from './page.ts'
import { api, sentenceOf } from './service.ts'
import { createSignIn } from './sign-in.ts'

startPage(start)

async function start(): Promise<void> {
  try {
    const { needsSetup } = await api.auth.readState()
    if (needsSetup) return location.replace('/setup')
    const form = createSignIn({ onSignedIn: async () => location.replace(findTarget()) })
    showStep('Sign in', form)
    form.querySelector('input')?.focus()
  } catch (error) {
    showStep('This page cannot be opened now', paragraph(sentenceOf(error)), button('Try again', 'primary', start))
  }
}

/** The page in `returnTo`, unless it would lead away from this service. A fragment may belong to it, such as a token. */
function findTarget(): string {
  const target = URL.parse(new URLSearchParams(location.search).get('returnTo') ?? '/', location.origin)
  // A path such as //example.com is one of this service only as long as its origin stands before it.
  if (target?.origin !== location.origin || target.pathname.startsWith('//')) return '/'
  return target.pathname + target.search + location.hash
}
