import { useSuspenseQuery } from '@tanstack/react-query'
import { Outlet } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { checkSession, meQuery } from '../../api/session.ts'
import { useSessionEnded } from '../../api/session-end.ts'
import { Dialog } from '../../parts/dialog.tsx'
import { LoginForm } from './login-form.tsx'
import { Shortcuts } from './shortcuts.tsx'

/** Every page of a signed-in person. If the session ends, they sign in on top of the page and lose no edit. */
export function SignedIn() {
  const hasEnded = useSessionEnded()
  const { data: me } = useSuspenseQuery({ ...meQuery, staleTime: Number.POSITIVE_INFINITY })
  const [personId] = useState(me.id)
  const isOther = me.id !== personId
  useEffect(() => {
    addEventListener('focus', checkSession)
    return () => removeEventListener('focus', checkSession)
  }, [])
  useEffect(() => {
    if (isOther) location.replace('/')
  }, [isOther])
  // Nothing that the first person has read or typed may be seen or saved by the second.
  if (isOther) return null
  return (
    <Shortcuts>
      <Outlet />
      <Dialog
        title="Your session has ended"
        isOpen={hasEnded}
        onClose={() => undefined}
        description="Sign in again to go on. Your unsaved changes are still here."
      >
        <LoginForm email={me.email} />
      </Dialog>
    </Shortcuts>
  )
}
