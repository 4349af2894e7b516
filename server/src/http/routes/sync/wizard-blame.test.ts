/** A wrong value in the wizard of every provider: the error names exactly the field that is wrong. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startSetup, startVendorService, submitStep, type VendorService } from '../../../../../test/sync.ts'
import { everyProvider, type ProviderCase } from '../../../../../test/vendor/every.ts'
import type { FakeRequest, InjectedFailure } from '../../../../../test/vendor/fake.ts'
import type { Values } from '../../../providers/provider.ts'

let vendors: VendorService
beforeAll(async () => {
  vendors = await startVendorService()
})
afterAll(() => vendors.service.stop())

/** Wrong values in the wizard, with the field that the error must name. */
type Wrong = readonly [changed: Values, field: string]
type Faults = { readonly auth: readonly Wrong[]; readonly target?: readonly Wrong[] }

const wrongId = '99999999-9999-4999-8999-999999999999'
const elsewhere = { baseUrl: 'https://elsewhere.example.test' }
const wrongToken: Wrong = [{ token: 'wrong-token-0002' }, 'token']
const awsFaults: readonly Wrong[] = [
  [{ accessKeyId: 'AKIARTX3GSDSQCCCCCCC' }, 'accessKeyId'],
  [{ secretAccessKey: 'wrong' }, 'secretAccessKey'],
  [{ method: 'role', roleArn: 'arn:aws:iam::111122223333:role/other' }, 'roleArn'],
]
const otherRegion: Wrong = [{ region: 'cn-north-1' }, 'region']

const faultsOf: Readonly<Record<string, Faults>> = {
  'github-actions': {
    auth: [wrongToken, [elsewhere, 'baseUrl']],
    target: [
      [{ repository: 'acme/other' }, 'repository'],
      [{ scope: 'environment', environment: 'other' }, 'environment'],
      [{ scope: 'environment', repository: 'acme/other', environment: 'release/eu' }, 'repository'],
      [{ scope: 'organization', organization: 'other', visibility: 'selected', repositories: 'shop' }, 'organization'],
    ],
  },
  'gitlab-ci': {
    auth: [wrongToken, [elsewhere, 'baseUrl']],
    target: [
      [{ project: 'acme/other' }, 'project'],
      [{ kind: 'group', group: 'other' }, 'group'],
    ],
  },
  'aws-secrets-manager': { auth: awsFaults, target: [otherRegion] },
  'aws-ssm': { auth: awsFaults, target: [otherRegion] },
  'gcp-secret-manager': {
    auth: [[{ serviceAccount: '' }, 'serviceAccount']],
    target: [[{ project: 'other-project' }, 'project']],
  },
  'azure-key-vault': {
    auth: [
      [{ tenantId: wrongId }, 'tenantId'],
      [{ clientId: wrongId }, 'clientId'],
      [{ clientSecret: 'wrong' }, 'clientSecret'],
    ],
    target: [
      [{ vaultUri: 'https://other.vault.azure.net' }, 'vaultUri'],
      [{ vaultUri: 'https://other.vault.azure.cn' }, 'vaultUri'],
    ],
  },
  'vault-kv': {
    auth: [
      wrongToken,
      [{ address: 'https://elsewhere.example.test' }, 'address'],
      [{ namespace: 'team-b' }, 'namespace'],
      [{ method: 'approle', roleId: 'fake-role-id-0001', secretId: 'wrong' }, 'secretId'],
      [
        {
          method: 'approle',
          roleId: 'fake-role-id-0001',
          secretId: 'fake-secret-id-0001',
          approleMount: 'other',
          namespace: '',
        },
        'approleMount',
      ],
    ],
    target: [
      [{ mount: 'other' }, 'mount'],
      [{ path: 'somebody/elses' }, 'path'],
    ],
  },
  kubernetes: {
    auth: [wrongToken, [{ server: 'https://elsewhere.example.test' }, 'server']],
    target: [
      [{ namespace: 'other' }, 'namespace'],
      [{ namespace: 'other', type: 'kubernetes.io/tls' }, 'namespace'],
    ],
  },
  vercel: {
    auth: [wrongToken],
    target: [
      [{ team: 'team_other' }, 'team'],
      [{ project: 'prj_other' }, 'project'],
    ],
  },
  'cloudflare-workers': {
    auth: [wrongToken, [{ accountId: 'f'.repeat(32) }, 'accountId']],
    target: [[{ script: 'other' }, 'script']],
  },
  netlify: {
    auth: [wrongToken],
    target: [
      [{ account: 'other' }, 'account'],
      [{ site: wrongId }, 'site'],
      [{ site: wrongId, context: 'branch', branch: 'main' }, 'site'],
    ],
  },
  fly: { auth: [wrongToken], target: [[{ app: 'other' }, 'app']] },
  railway: {
    auth: [wrongToken],
    target: [
      [{ project: wrongId }, 'project'],
      [{ environment: wrongId }, 'environment'],
      [{ service: wrongId }, 'service'],
    ],
  },
  render: {
    auth: [wrongToken],
    target: [
      [{ service: 'srv-other' }, 'service'],
      [{ kind: 'env-group', envGroup: 'evg-other' }, 'envGroup'],
    ],
  },
  heroku: { auth: [wrongToken], target: [[{ app: 'other' }, 'app']] },
  'terraform-cloud': {
    auth: [wrongToken, [elsewhere, 'baseUrl']],
    target: [
      [{ organization: 'other', workspace: 'ws-1' }, 'organization'],
      [{ workspace: 'ws-other' }, 'workspace'],
      [{ kind: 'variableSet', variableSet: 'varset-other' }, 'variableSet'],
    ],
  },
  circleci: {
    auth: [wrongToken, [elsewhere, 'baseUrl']],
    target: [
      [{ project: 'gh/acme/other' }, 'project'],
      [{ kind: 'context', organization: wrongId, context: wrongId }, 'organization'],
    ],
  },
  'bitbucket-pipelines': {
    auth: [wrongToken],
    target: [
      [{ workspace: 'other' }, 'workspace'],
      [{ repository: 'other' }, 'repository'],
      [{ kind: 'deployment', environment: `{${wrongId}}` }, 'environment'],
    ],
  },
  'digitalocean-apps': {
    auth: [wrongToken],
    target: [
      [{ app: wrongId }, 'app'],
      [{ component: 'other' }, 'component'],
    ],
  },
  'cloudflare-pages': {
    auth: [wrongToken, [{ accountId: 'f'.repeat(32) }, 'accountId']],
    target: [[{ project: 'other' }, 'project']],
  },
  webhook: {
    auth: [
      [{ secret: `whsec_${Buffer.alloc(32, 8).toString('base64')}` }, 'secret'],
      [{ url: 'https://elsewhere.example.test/coffer' }, 'url'],
      [{ url: 'https://hooks.example.test/other' }, 'url'],
    ],
  },
}

const label = ([changed, field]: Wrong) => `a wrong ${Object.keys(changed).join(', ')} is reported for ${field}`

async function refusalOf(entry: ProviderCase, step: 'auth' | 'target', changed: Values, intercept?: Interceptor) {
  const world = vendors.open(entry)
  const id = await startSetup(world)
  const { credential, target } = world.fake
  if (step === 'target') expect((await submitStep(world, id, 'auth', credential)).status).toBe(200)
  vendors.routeTo(world.fake, intercept)
  const answer = await submitStep(world, id, step, { ...(step === 'auth' ? credential : target), ...changed })
  await vendors.project.must('DELETE', `/sync/${id}`)
  return `${answer.status} ${answer.body.message}`
}

type Interceptor = (request: FakeRequest) => InjectedFailure | undefined

/** Lists of options that the minimal credential of a provider cannot read. */
const listPaths: Readonly<Record<string, RegExp>> = {
  'github-actions': /^\/(api\/v3\/)?user\/(repos|orgs)/,
  'gitlab-ci': /^\/api\/v4\/(projects|groups)\?/,
  netlify: /^\/api\/v1\/(accounts|sites)(\?|$)/,
}

describe.each(everyProvider)('$slug', (entry) => {
  const { auth, target = [] } = faultsOf[entry.slug] ?? { auth: [] }

  test.each(auth.map((wrong) => [label(wrong), ...wrong] as const))('auth: %s', async (_title, changed, field) => {
    expect(await refusalOf(entry, 'auth', changed)).toMatch(new RegExp(`^400 ${field}: `))
  })

  test.each(target.map((wrong) => [label(wrong), ...wrong] as const))('target: %s', async (_title, changed, field) => {
    expect(await refusalOf(entry, 'target', changed)).toMatch(new RegExp(`^400 ${field}: `))
    const list = listPaths[entry.slug]
    if (!list) return
    const forbidLists = ({ url }: FakeRequest): InjectedFailure | undefined =>
      list.test(url) ? { kind: 'answer', answer: { status: 403 } } : undefined
    expect(await refusalOf(entry, 'target', changed, forbidLists)).toMatch(new RegExp(`^400 ${field}: `))
  })

  test('a credential that is refused later is not reported as a wrong target', async () => {
    if (target.length === 0) return expect(entry.provider.target).toEqual([])
    const refuse = (): InjectedFailure => ({ kind: 'answer', answer: { status: 401 } })
    expect(await refusalOf(entry, 'target', {}, refuse)).toMatch(/^409 .* enter another one in the auth step\.$/)
  })
})
