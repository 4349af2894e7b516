/** Opens a share with nothing but its link. The key in the fragment of the link is sent to nobody. */
import { ConnectionError, type OpenedShare, type ShareKey, type ShareMeta } from '@coffer/sdk'
import { type ShareContent, ShareEnvelopeError, toBase64Url, unlock } from '@coffer/sdk/share-envelope'
import { api } from './service.ts'

export type Link = { readonly token: string; readonly fragment: string }
export type Opened = { readonly content: ShareContent; readonly viewsLeft: number }

/** The service keeps a view for its reader for a minute: the first attempt must leave time for a second one. */
const firstTimeoutMs = 30_000
/** The largest share on a very slow line. */
const secondTimeoutMs = 120_000

/** False for a fragment of which a part was changed or cut off. Asks nobody. */
export async function isWhole(fragment: string): Promise<boolean> {
  try {
    await unlock(fragment)
    return true
  } catch (error) {
    if (error instanceof ShareEnvelopeError) return false
    throw error
  }
}

/**
 * Uses up a view, unless the password is wrong. The same claim goes with every attempt of this page, so that an answer that
 * was lost on its way is sent again for the same view.
 */
export function createOpening({ token, fragment }: Link, { kind }: ShareMeta): (password?: string) => Promise<Opened> {
  const claim = toBase64Url(crypto.getRandomValues(new Uint8Array(16)))

  async function view(key: ShareKey): Promise<OpenedShare> {
    try {
      return await api.share.open({ token }, { ...key, claim }, { timeoutMs: firstTimeoutMs })
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error
      return api.share.open({ token }, { ...key, claim }, { timeoutMs: secondTimeoutMs })
    }
  }

  return async (password) => {
    if (kind === 'server') {
      const { content = '', secrets, viewsLeft } = await view(password === undefined ? {} : { password })
      return { content: secrets ? { t: 'kv', items: secrets } : { t: 'text', v: content }, viewsLeft }
    }
    const { open, ...proofs } = await unlock(fragment, password)
    const { ciphertext = '', commit = '', viewsLeft } = await view(proofs)
    return { content: await open(ciphertext, commit), viewsLeft }
  }
}
