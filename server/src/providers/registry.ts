/** Every provider, one line each. */
import { heroku } from './heroku.ts'
import type { AnnouncedProvider, Provider } from './provider.ts'
import { vaultKv } from './vault-kv.ts'

export const providers: readonly Provider[] = [heroku, vaultKv]

export const announced: readonly AnnouncedProvider[] = []
