/** Opens a share in the terminal, with nothing but its link. The key in the fragment of the link is sent to nobody. */
import { type Api, ConnectionError, type OpenedShare, type ShareMeta } from '@coffer/sdk'
import { type ShareContent, ShareEnvelopeError, toBase64Url, unlock } from '@coffer/sdk/share-envelope'
import { CliError, usageError } from '../error.ts'

type Link = { readonly url: string; readonly token: string; readonly fragment: string }

/** Never quotes the link: whoever has it can open the share. */
export function parseLink(text: string): Link {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined
  const [, base, token] = /^(.*)\/share\/([A-Za-z0-9_-]{8,200})\/?$/.exec(url?.pathname ?? '') ?? []
  if (!url || !/^https?:$/.test(url.protocol) || token === undefined || url.username || url.password) {
    throw usageError('This is not the link of a share.', 'https://…/share/…')
  }
  return { url: url.origin + base, token, fragment: url.hash }
}

/** Uses up no view. */
export async function readMeta(api: Api, { token, fragment }: Link): Promise<ShareMeta> {
  const meta = await api.share.readMeta({ token }).catch((error: unknown) => {
    throw isMissing(error) ? gone() : error
  })
  if (meta.kind === 'e2e' && fragment === '') {
    throw new CliError('failure', 'The link is cut off: the part after # is missing.', 'ask the sender for all of it')
  }
  return meta
}

type Opened = {
  readonly content: ShareContent
  readonly viewsLeft: number
}

/** Uses up a view, unless the password is wrong. */
export async function openShare(
  api: Api,
  { token, fragment }: Link,
  { kind }: ShareMeta,
  password: string | undefined,
): Promise<Opened> {
  if (kind === 'server') {
    const answer = await view(api, token, password === undefined ? {} : { password })
    const { content = '', secrets, viewsLeft } = answer
    return { content: secrets ? { t: 'kv', items: secrets } : { t: 'text', v: content }, viewsLeft }
  }
  try {
    const { open, ...proofs } = await unlock(fragment, password)
    // A second request with the same claim gets the same answer, so a connection that breaks does not lose the share.
    const claim = toBase64Url(crypto.getRandomValues(new Uint8Array(16)))
    const { ciphertext = '', commit = '', viewsLeft } = await view(api, token, { ...proofs, claim }, 1)
    return { content: await open(ciphertext, commit), viewsLeft }
  } catch (error) {
    throw error instanceof ShareEnvelopeError ? new CliError('failure', error.message) : error
  }
}

type Key = Parameters<Api['share']['open']>[1]

async function view(api: Api, token: string, key: Key, retries = 0): Promise<OpenedShare> {
  try {
    return await api.share.open({ token }, key)
  } catch (error) {
    if (error instanceof ConnectionError && retries > 0) return view(api, token, key, retries - 1)
    throw isMissing(error) ? gone() : error
  }
}

const isMissing = (error: unknown) => error instanceof Error && 'status' in error && error.status === 404

const gone = () =>
  new CliError('notFound', 'This share does not exist: it has expired, was revoked, or was opened before.')
