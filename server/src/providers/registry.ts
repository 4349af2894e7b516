/** Every provider, one line each. */
import { awsSecretsManager } from './aws-secrets-manager.ts'
import { heroku } from './heroku.ts'
import type { AnnouncedProvider, Provider } from './provider.ts'

export const providers: readonly Provider[] = [awsSecretsManager, heroku]

export const announced: readonly AnnouncedProvider[] = []
