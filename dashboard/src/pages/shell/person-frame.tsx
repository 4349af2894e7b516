import { Link, Outlet } from '@tanstack/react-router'
import { Icon } from '../../parts/icon.tsx'
import { PersonMenu } from './person-menu.tsx'
import './shell.css'

/** Pages that belong to a person rather than to a workspace. */
export function PersonFrame() {
  return (
    <div className="person-shell">
      <nav className="person-bar" aria-label="Coffer">
        <Link to="/" search={{ all: true }} activeOptions={{ exact: true }} className="button quiet">
          <Icon name="coffer" />
          Workspaces
        </Link>
        <PersonMenu className="button quiet" />
      </nav>
      <main className="shell-main">
        <Outlet />
      </main>
    </div>
  )
}
