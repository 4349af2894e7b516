/** Every provider, one line each. */
import { githubActions } from './github-actions.ts'
import { heroku } from './heroku.ts'
import type { AnnouncedProvider, Provider } from './provider.ts'

export const providers: readonly Provider[] = [githubActions, heroku]

export const announced: readonly AnnouncedProvider[] = []
