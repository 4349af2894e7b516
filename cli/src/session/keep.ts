/** Keeps and forgets the session of a service: in the keychain if there is one, else in the login file. */
import type { Environment } from '../environment.ts'
import { deleteKeychain, writeKeychain } from './keychain.ts'
import { changeLogins, type Login, readLogins } from './login-file.ts'

export type Store = Login['store']

type NewLogin = Pick<Login, 'email' | 'userId'> & { readonly workspace: string | undefined }

/** Returns where the session is kept now. */
export async function keepLogin(
  env: Environment,
  url: string,
  { workspace, ...person }: NewLogin,
  session: string,
  wanted: Store | undefined,
): Promise<Store> {
  const isInKeychain = wanted !== 'file' && (await writeKeychain(url, session))
  if (!isInKeychain && readLogins(env).byUrl[url]?.store === 'keychain') await deleteKeychain(url)
  const store = isInKeychain ? { store: 'keychain' as const } : { store: 'file' as const, session }
  const login: Login = { ...person, ...(workspace !== undefined && { workspace }), ...store }
  changeLogins(env, ({ byUrl, ...rest }) => ({ ...rest, byUrl: { ...byUrl, [url]: login }, lastUrl: url }))
  return login.store
}

/** The address stays known, so that the next login needs none. */
export async function forgetLogin(env: Environment, url: string): Promise<void> {
  if (readLogins(env).byUrl[url]?.store === 'keychain') await deleteKeychain(url)
  changeLogins(env, ({ byUrl: { [url]: _, ...byUrl }, ...rest }) => ({ ...rest, byUrl }))
}
