/** Every provider with its fake, for tests that cover all of them. */

import type { Provider, Values } from '../../server/src/providers/provider.ts'
import { providers } from '../../server/src/providers/registry.ts'
import { fakeSecretsManager } from './fake/aws-secrets-manager.ts'
import { fakeSsm } from './fake/aws-ssm.ts'
import { fakeKeyVault } from './fake/azure-key-vault.ts'
import { fakeBitbucket } from './fake/bitbucket-pipelines.ts'
import { fakeCircle } from './fake/circleci.ts'
import { fakeCloudflarePages } from './fake/cloudflare-pages.ts'
import { fakeCloudflareWorkers } from './fake/cloudflare-workers.ts'
import { fakeApps } from './fake/digitalocean-apps.ts'
import { fakeFly } from './fake/fly.ts'
import { fakeGcp } from './fake/gcp-secret-manager.ts'
import { fakeGitHub } from './fake/github-actions.ts'
import { fakeGitLab } from './fake/gitlab-ci.ts'
import { fakeHeroku } from './fake/heroku.ts'
import { fakeKubernetes } from './fake/kubernetes.ts'
import { fakeNetlify } from './fake/netlify.ts'
import { fakeRailway } from './fake/railway.ts'
import { fakeRender } from './fake/render.ts'
import { fakeTerraform } from './fake/terraform-cloud.ts'
import { fakeVault } from './fake/vault-kv.ts'
import { fakeVercel } from './fake/vercel.ts'
import { fakeReceiver } from './fake/webhook.ts'
import type { Fake } from './fake.ts'

type Clock = () => number
type Entry = { readonly make: (clock: Clock) => Fake; readonly mapping?: Values }

const entries: Readonly<Record<string, Entry>> = {
  'github-actions': { make: () => fakeGitHub() },
  'gitlab-ci': { make: () => fakeGitLab() },
  'aws-secrets-manager': { make: (clock) => fakeSecretsManager({ clock }), mapping: { prefix: 'shop/' } },
  'aws-ssm': { make: (clock) => fakeSsm({ clock }) },
  'gcp-secret-manager': { make: (clock) => fakeGcp({ clock }) },
  'azure-key-vault': { make: () => fakeKeyVault() },
  'vault-kv': { make: () => fakeVault() },
  kubernetes: { make: () => fakeKubernetes() },
  vercel: { make: () => fakeVercel() },
  'cloudflare-workers': { make: () => fakeCloudflareWorkers() },
  netlify: { make: () => fakeNetlify() },
  fly: { make: () => fakeFly() },
  railway: { make: () => fakeRailway() },
  render: { make: () => fakeRender() },
  heroku: { make: () => fakeHeroku() },
  'terraform-cloud': { make: () => fakeTerraform() },
  circleci: { make: () => fakeCircle() },
  'bitbucket-pipelines': { make: () => fakeBitbucket() },
  'digitalocean-apps': { make: () => fakeApps() },
  'cloudflare-pages': { make: () => fakeCloudflarePages() },
  webhook: { make: (clock) => fakeReceiver({ clock }) },
}

export type ProviderCase = {
  readonly slug: string
  readonly provider: Provider
  /** Values of the mapping step: one entry per secret, with names that the vendor accepts. */
  readonly mapping: Values
  readonly makeFake: (clock: Clock) => Fake
}

/** Throws for a provider without a fake. */
export const everyProvider: readonly ProviderCase[] = providers.map((provider) => {
  const entry = entries[provider.slug]
  if (!entry) throw new Error(`${provider.slug} has no fake in test/vendor/every.ts`)
  return {
    slug: provider.slug,
    provider,
    mapping: { mode: 'per-key', ...entry.mapping },
    makeFake: (clock) => entry.make(clock),
  }
})
