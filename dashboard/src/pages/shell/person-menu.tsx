import { useSuspenseQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { meQuery, signOut } from '../../api/session.ts'
import { Icon } from '../../parts/icon.tsx'
import { Menu } from '../../parts/menu.tsx'
import { say } from '../../parts/toast.tsx'

export function PersonMenu({ className = 'who' }: { readonly className?: string }) {
  const navigate = useNavigate()
  const { data: me } = useSuspenseQuery(meQuery)
  const account = { text: 'Your account', onSelect: () => void navigate({ to: '/me' }) }
  const leave = { text: 'Sign out', onSelect: () => void signOut().catch((error: unknown) => say(error, 'bad')) }
  const trigger = (
    <>
      <Icon name="person" />
      <span className="truncate">{me.email}</span>
    </>
  )
  return <Menu className={className} trigger={trigger} groups={[[account], [leave]]} />
}
