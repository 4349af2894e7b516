/** All providers, in display order. */
import { awsSecretsManager } from './aws-secrets-manager.ts'
import { awsSsm } from './aws-ssm.ts'
import { azureKeyVault } from './azure-key-vault.ts'
import { bitbucketPipelines } from './bitbucket-pipelines.ts'
import { circleci } from './circleci.ts'
import { cloudflarePages } from './cloudflare-pages.ts'
import { cloudflareWorkers } from './cloudflare-workers.ts'
import { digitaloceanApps } from './digitalocean-apps.ts'
import { fly } from './fly.ts'
import { gcpSecretManager } from './gcp-secret-manager.ts'
import { githubActions } from './github-actions.ts'
import { gitlabCi } from './gitlab-ci.ts'
import { heroku } from './heroku.ts'
import { kubernetes } from './kubernetes.ts'
import { netlify } from './netlify.ts'
import type { Provider } from './provider.ts'
import { railway } from './railway.ts'
import { render } from './render.ts'
import { terraformCloud } from './terraform-cloud.ts'
import { vaultKv } from './vault-kv.ts'
import { vercel } from './vercel.ts'
import { webhook } from './webhook.ts'

export { announced } from './coming-soon.ts'

export const providers: readonly Provider[] = [
  githubActions,
  gitlabCi,
  awsSecretsManager,
  awsSsm,
  gcpSecretManager,
  azureKeyVault,
  vaultKv,
  kubernetes,
  vercel,
  cloudflareWorkers,
  netlify,
  fly,
  railway,
  render,
  heroku,
  terraformCloud,
  circleci,
  bitbucketPipelines,
  digitaloceanApps,
  cloudflarePages,
  webhook,
]
