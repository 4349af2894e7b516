/** Every provider, one line each. */
import { cloudflarePages } from './cloudflare-pages.ts'
import { cloudflareWorkers } from './cloudflare-workers.ts'
import { fly } from './fly.ts'
import { heroku } from './heroku.ts'
import type { Provider } from './provider.ts'
import { railway } from './railway.ts'
import { render } from './render.ts'
import { webhook } from './webhook.ts'

export const providers: readonly Provider[] = [
  heroku,
  cloudflareWorkers,
  fly,
  railway,
  render,
  cloudflarePages,
  webhook,
]

export { announced } from './announced.ts'
