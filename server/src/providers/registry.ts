/** Every provider, one line each. */
import { awsSecretsManager } from './aws-secrets-manager.ts'
import { awsSsm } from './aws-ssm.ts'
import { azureKeyVault } from './azure-key-vault.ts'
import { gcpSecretManager } from './gcp-secret-manager.ts'
import { heroku } from './heroku.ts'
import type { AnnouncedProvider, Provider } from './provider.ts'

export const providers: readonly Provider[] = [awsSecretsManager, awsSsm, azureKeyVault, gcpSecretManager, heroku]

export const announced: readonly AnnouncedProvider[] = []
