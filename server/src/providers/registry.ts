/** Every provider, one line each. */
import { heroku } from './heroku.ts'
import type { AnnouncedProvider, Provider } from './provider.ts'

export const providers: readonly Provider[] = [heroku]

export const announced: readonly AnnouncedProvider[] = []
