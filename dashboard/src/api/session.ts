/** Who is signed in, and signing in and out. */
import { ApiError, type AuthState, type Login, type Me, type Registration } from '@coffer/sdk'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import { queryClient } from './query-client.ts'
import { reportSessionStart } from './session-end.ts'

export const authStateQuery = queryOptions({ queryKey: ['auth-state'], queryFn: () => api.auth.readState() })
export const meQuery = queryOptions({ queryKey: ['me'], queryFn: () => api.me.read(), staleTime: 60_000 })

/** Another person's cached lists must not be seen after a change of account. */
export async function signIn(login: Login): Promise<void> {
  const before = queryClient.getQueryData<Me>(meQuery.queryKey)?.id
  const { user } = await api.auth.login(login)
  if (before !== undefined && before !== user.id) return location.assign('/')
  await queryClient.invalidateQueries()
  reportSessionStart()
}

/** Another tab may have signed out, or signed in again, also with another account: the cookie is the same for all. */
export function checkSession(): void {
  queryClient.fetchQuery({ ...meQuery, staleTime: 0 }).then(reportSessionStart, () => undefined)
}

/** The first account of an installation. The answer sets the cookie of its session. */
export async function registerFirst(registration: Registration): Promise<void> {
  await api.auth.register(registration)
  queryClient.setQueryData<AuthState>(authStateQuery.queryKey, (state) => state && { ...state, needsSetup: false })
  reportSessionStart()
}

/** A full page load drops everything that this page holds in memory. A session that has ended already is as good. */
export async function signOut(): Promise<void> {
  await api.auth.logout().catch((error: unknown) => {
    if (!(error instanceof ApiError && error.status === 401)) throw error
  })
  location.assign('/login')
}
