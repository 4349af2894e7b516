/** Tokens of well-known issuers, in their real form. */
import type { IdentityVerdict } from '@coffer/contract/oidc'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  createProject,
  registerOwner,
  startService,
  type TestProject,
  type TestService,
  type TestUser,
} from '../../../../../test/harness.ts'
import {
  type Claims,
  createIdentity,
  loopbackAllowed,
  startIssuer,
  type TestIssuer,
  tryFederation,
} from '../../../../../test/issuer.ts'

let service: TestService
let issuer: TestIssuer
let owner: TestUser
let project: TestProject
const list = '/v1/workspace/main/oidc'

beforeAll(async () => {
  service = await startService(loopbackAllowed)
  issuer = await startIssuer(() => service.app.services.now())
  owner = await registerOwner(service)
  project = await createProject(service, owner.session, 'api')
  const body = { environments: project.environments.map(({ id }) => id), secrets: [{ key: 'KEY', value: 'shared' }] }
  await service.call('POST', '/v1/workspace/main/project/api/secret', { token: owner.session, body })
})
afterAll(async () => {
  await service.stop()
  await issuer.stop()
})
const trust = (body: Readonly<Record<string, unknown>>) =>
  createIdentity(service, owner.session, { issuer: issuer.url, ...body })

describe('tokens as issued by', () => {
  const github = {
    repository: 'octo-org/octo-repo',
    repository_id: '456789',
    repository_owner: 'octo-org',
    repository_owner_id: '123456',
    repository_visibility: 'private',
    ref: 'refs/heads/main',
    ref_type: 'branch',
    event_name: 'push',
    environment: 'production',
    job_workflow_ref: 'octo-org/octo-automation/.github/workflows/oidc.yml@refs/heads/main',
    runner_environment: 'github-hosted',
    run_id: '30433642',
  }
  const gitlab = {
    sub: 'project_path:my-group/my-project:ref_type:branch:ref:main',
    namespace_id: '72',
    namespace_path: 'my-group',
    project_id: '20',
    project_path: 'my-group/my-project',
    user_identities: [{ provider: 'github', extern_uid: '2435223452345' }],
    pipeline_id: '574',
    ref: 'main',
    ref_type: 'branch',
    ref_protected: 'true',
    groups_direct: ['mygroup/mysubgroup', 'myothergroup'],
    runner_id: 1,
  }
  const kubernetes = {
    sub: 'system:serviceaccount:payments:api',
    aud: ['coffer'],
    'kubernetes.io': {
      namespace: 'payments',
      node: { name: 'node-1', uid: '646e7c5e-32d6-4d42-9dbd-e504e6cbe6b1' },
      pod: { name: 'api-5d4b', uid: '5e0bd49b-f040-43b0-99b7-22765a53f7f3' },
      serviceaccount: { name: 'api', uid: '14ee3fa4-a7e2-420f-9f9a-dbc4507c3798' },
    },
  }
  const terraform = {
    sub: 'organization:my-org:project:Default Project:workspace:my-workspace:run_phase:apply',
    terraform_run_phase: 'apply',
    terraform_workspace_id: 'ws-kbbuFNXiRDW8dBUu',
    terraform_workspace_name: 'my-workspace',
    terraform_organization_id: 'org-GRNbCjYNpBB6NEBH',
    terraform_organization_name: 'my-org',
    terraform_run_id: 'run-3nhipkUTTcBqCSP2',
    terraform_full_workspace: 'organization:my-org:project:Default Project:workspace:my-workspace',
  }
  const oldSubject = 'repo:octo-org/octo-repo:ref:refs/heads/main'
  const newSubject = 'repo:octo-org@123456/octo-repo@456789:ref:refs/heads/main'

  type Case = [what: string, rules: Record<string, unknown>, fits: Claims, others: readonly Claims[]]
  const cases: Case[] = [
    [
      'GitHub Actions, subject of names',
      { subject: oldSubject },
      { ...github, sub: oldSubject },
      [
        { ...github, sub: newSubject },
        { ...github, sub: 'repo:octo-org/octo-repo:pull_request' },
        { ...github, sub: 'repo:octo-org/octo-repo-evil:ref:refs/heads/main' },
        { ...github, sub: `${oldSubject}-2` },
        { ...github, sub: oldSubject.toUpperCase() },
      ],
    ],
    [
      'GitHub Actions, subject of immutable ids',
      { subject: 'repo:octo-org@123456/*:ref:refs/heads/main' },
      { ...github, sub: newSubject },
      [
        { ...github, sub: oldSubject },
        { ...github, sub: 'repo:octo-org@654321/octo-repo@456789:ref:refs/heads/main' },
        { ...github, sub: 'repo:octo-org@123456/octo-repo@456789:pull_request' },
      ],
    ],
    [
      'GitHub Actions, ids of repository and owner',
      { claims: { repository_id: '456789', repository_owner_id: '123456', ref: ['refs/heads/main', 'refs/tags/v*'] } },
      { ...github, sub: newSubject, ref: 'refs/tags/v1.2.3' },
      [
        { ...github, sub: newSubject, repository_id: '456780' },
        { ...github, sub: newSubject, repository_owner_id: '1234567' },
        { ...github, sub: newSubject, ref: 'refs/heads/feature' },
        { ...github, sub: newSubject, ref: undefined },
      ],
    ],
    [
      'GitLab',
      {
        subject: 'project_path:my-group/*:ref_type:branch:ref:main',
        claims: { project_id: '20', ref_protected: 'true' },
      },
      gitlab,
      [
        { ...gitlab, ref_protected: 'false' },
        { ...gitlab, project_id: '21' },
        { ...gitlab, sub: 'project_path:my-group-2/my-project:ref_type:branch:ref:main' },
      ],
    ],
    [
      'GitLab, one of the user’s groups',
      { claims: { groups_direct: 'mygroup/*', runner_id: '1' } },
      gitlab,
      [
        { ...gitlab, groups_direct: ['myothergroup'] },
        { ...gitlab, groups_direct: [] },
        { ...gitlab, groups_direct: [['mygroup/mysubgroup']] },
        { ...gitlab, runner_id: 2 },
      ],
    ],
    [
      'Kubernetes',
      {
        subject: 'system:serviceaccount:payments:api',
        claims: { 'kubernetes.io.namespace': 'payments', 'kubernetes.io.serviceaccount.name': 'api' },
      },
      kubernetes,
      [
        { ...kubernetes, sub: 'system:serviceaccount:payments:worker' },
        { ...kubernetes, 'kubernetes.io': { ...kubernetes['kubernetes.io'], namespace: 'other' } },
        { ...kubernetes, 'kubernetes.io': undefined },
        { ...kubernetes, aud: ['https://kubernetes.default.svc.cluster.local'] },
      ],
    ],
    [
      'Terraform Cloud',
      {
        subject: 'organization:my-org:project:*:workspace:my-workspace:run_phase:*',
        claims: { terraform_organization_id: 'org-GRNbCjYNpBB6NEBH', terraform_run_phase: ['plan', 'apply'] },
      },
      terraform,
      [
        { ...terraform, terraform_run_phase: 'destroy' },
        { ...terraform, terraform_organization_id: 'org-other' },
        { ...terraform, sub: 'organization:my-org-2:project:P:workspace:my-workspace:run_phase:apply' },
      ],
    ],
    [
      'an issuer whose claims have addresses for names',
      { claims: { 'https://example.com/roles': 'deployer', 'https://example.com/org.name': 'acme' } },
      { 'https://example.com/roles': ['reader', 'deployer'], 'https://example.com/org': { name: 'acme' } },
      [{ 'https://example.com/roles': ['deployer-2'], 'https://example.com/org': { name: 'acme' } }],
    ],
  ]
  test.each(cases)('%s: only a matching token is accepted', async (what, rules, fits, others) => {
    const { id } = await trust({ name: what.slice(0, 64), ...rules })
    const nbf = Math.floor(service.app.services.now() / 1000) - 5
    expect((await tryFederation(service, await issuer.sign({ nbf, ...fits }))).status).toBe(200)
    for (const other of others) {
      const token = await issuer.sign({ nbf, ...other })
      expect((await tryFederation(service, token)).status, JSON.stringify(other)).toBe(401)
      const { body } = await service.call<IdentityVerdict>('POST', `${list}/${id}/test`, {
        token: owner.session,
        body: { token },
      })
      expect(body.ok).toBe(false)
      expect(body.checks.filter(({ ok }) => !ok).length, JSON.stringify(body)).toBeGreaterThan(0)
    }
    await service.call('DELETE', `${list}/${id}`, { token: owner.session })
  })
})
