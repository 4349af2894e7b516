import { Page } from '../../parts/page.tsx'
import { Email } from './email.tsx'
import { Password } from './password.tsx'
import { PreferencesForm } from './preferences.tsx'
import { Profile } from './profile.tsx'
import { SecondFactor } from './second-factor.tsx'
import { Sessions } from './sessions.tsx'

export function MePage() {
  return (
    <Page title="Your account">
      <Profile />
      <Email />
      <Password />
      <SecondFactor />
      <Sessions />
      <PreferencesForm />
    </Page>
  )
}
