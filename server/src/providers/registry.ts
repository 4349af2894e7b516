/** Every provider, one line each. */
import { digitaloceanApps } from './digitalocean-apps.ts'
import { heroku } from './heroku.ts'
import { kubernetes } from './kubernetes.ts'
import { netlify } from './netlify.ts'
import type { AnnouncedProvider, Provider } from './provider.ts'
import { vaultKv } from './vault-kv.ts'
import { vercel } from './vercel.ts'

export const providers: readonly Provider[] = [digitaloceanApps, heroku, kubernetes, netlify, vaultKv, vercel]

export const announced: readonly AnnouncedProvider[] = []
