/** Templates for well-known issuers. Words in capitals are placeholders. */
import type { WorkspacePath } from '@coffer/contract/field'
import type { IdentityPreset } from '@coffer/contract/oidc'
import { requireWorkspace } from '../access/access.ts'
import type { Context } from '../context.ts'

type Form = Omit<IdentityPreset, 'audience'>

const github = 'https://token.actions.githubusercontent.com'

const forms: readonly Form[] = [
  {
    id: 'github-actions',
    name: 'GitHub Actions',
    description:
      'By the ids of repository and owner, which survive a rename and are never given to anybody else. The workflow needs the permission id-token: write.',
    issuer: github,
    subject: null,
    claims: { repository_id: 'REPOSITORY_ID', repository_owner_id: 'OWNER_ID', ref: 'refs/heads/main' },
  },
  {
    id: 'github-actions-environment',
    name: 'GitHub Actions, one deployment environment',
    description:
      'As above, for jobs that name a deployment environment, whose protection rules then hold for the secrets too.',
    issuer: github,
    subject: null,
    claims: { repository_id: 'REPOSITORY_ID', repository_owner_id: 'OWNER_ID', environment: 'production' },
  },
  {
    id: 'github-actions-subject',
    name: 'GitHub Actions, by subject',
    description:
      'The subject with immutable ids, as newer repositories send it. Older ones send repo:OWNER/REPOSITORY:ref:refs/heads/main: there keep the two claims, as a name alone can pass to somebody else.',
    issuer: github,
    subject: 'repo:OWNER@OWNER_ID/REPOSITORY@REPOSITORY_ID:ref:refs/heads/main',
    claims: { repository_id: 'REPOSITORY_ID', repository_owner_id: 'OWNER_ID' },
  },
  {
    id: 'gitlab',
    name: 'GitLab CI/CD',
    description:
      'Jobs of a protected branch. For an installation of your own, its address is the issuer. The job asks for the token with id_tokens.',
    issuer: 'https://gitlab.com',
    subject: 'project_path:GROUP/PROJECT:ref_type:branch:ref:main',
    claims: { project_id: 'PROJECT_ID', namespace_id: 'NAMESPACE_ID', ref_protected: 'true' },
  },
  {
    id: 'kubernetes',
    name: 'Kubernetes service account',
    description:
      'A projected token of the service account. The issuer is what kubectl get --raw /.well-known/openid-configuration shows.',
    issuer: 'https://kubernetes.default.svc.cluster.local',
    subject: 'system:serviceaccount:NAMESPACE:SERVICE_ACCOUNT',
    claims: { 'kubernetes.io.namespace': 'NAMESPACE' },
  },
  {
    id: 'terraform-cloud',
    name: 'Terraform Cloud',
    description:
      'Workload identity of a run. Set TFC_WORKLOAD_IDENTITY_AUDIENCE to the audience; the ids hold where names can change.',
    issuer: 'https://app.terraform.io',
    subject: 'organization:ORGANIZATION:project:PROJECT:workspace:WORKSPACE:run_phase:*',
    claims: { terraform_organization_id: 'ORGANIZATION_ID', terraform_workspace_id: 'WORKSPACE_ID' },
  },
  {
    id: 'generic',
    name: 'Any OpenID Connect issuer',
    description: 'Whatever serves discovery and its keys over https.',
    issuer: 'https://ISSUER',
    subject: 'SUBJECT',
    claims: {},
  },
]

export async function listIdentityPresets(ctx: Context, path: WorkspacePath): Promise<IdentityPreset[]> {
  await requireWorkspace(ctx, path, 'oidc:read')
  return forms.map((form) => ({ ...form, audience: ctx.config.publicUrl }))
}
