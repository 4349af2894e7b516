/** Every provider, one line each. */
import { heroku } from './heroku.ts'
import { kubernetes } from './kubernetes.ts'
import type { AnnouncedProvider, Provider } from './provider.ts'
import { vaultKv } from './vault-kv.ts'

export const providers: readonly Provider[] = [heroku, kubernetes, vaultKv]

export const announced: readonly AnnouncedProvider[] = []
