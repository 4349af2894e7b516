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
      'Matches the ids of repository and owner, which survive a rename and are never reused. The workflow needs the permission id-token: write.',
    issuer: github,
    subject: null,
    claims: { repository_id: 'REPOSITORY_ID', repository_owner_id: 'OWNER_ID', ref: 'refs/heads/main' },
  },
  {
    id: 'github-actions-environment',
    name: 'GitHub Actions, one deployment environment',
    description:
      'Like github-actions, for jobs with a deployment environment, whose protection rules then apply to the secrets too.',
    issuer: github,
    subject: null,
    claims: { repository_id: 'REPOSITORY_ID', repository_owner_id: 'OWNER_ID', environment: 'production' },
  },
  {
    id: 'github-actions-subject',
    name: 'GitHub Actions, by subject',
    description:
      'Matches the subject with immutable ids, which newer repositories send. Older ones send repo:OWNER/REPOSITORY:ref:refs/heads/main: keep the two claims then, because someone else can take over a name.',
    issuer: github,
    subject: 'repo:OWNER@OWNER_ID/REPOSITORY@REPOSITORY_ID:ref:refs/heads/main',
    claims: { repository_id: 'REPOSITORY_ID', repository_owner_id: 'OWNER_ID' },
  },
  {
    id: 'gitlab',
    name: 'GitLab CI/CD',
    description:
      'Matches jobs of a protected branch. For a self-managed GitLab, the issuer is its URL. The job requests the token with id_tokens.',
    issuer: 'https://gitlab.com',
    subject: 'project_path:GROUP/PROJECT:ref_type:branch:ref:main',
    claims: { project_id: 'PROJECT_ID', namespace_id: 'NAMESPACE_ID', ref_protected: 'true' },
  },
  {
    id: 'kubernetes',
    name: 'Kubernetes service account',
    description:
      'Matches projected tokens of the service account. kubectl get --raw /.well-known/openid-configuration shows the issuer.',
    issuer: 'https://kubernetes.default.svc.cluster.local',
    subject: 'system:serviceaccount:NAMESPACE:SERVICE_ACCOUNT',
    claims: { 'kubernetes.io.namespace': 'NAMESPACE' },
  },
  {
    id: 'terraform-cloud',
    name: 'Terraform Cloud',
    description:
      'Matches the workload identity of a run. Set TFC_WORKLOAD_IDENTITY_AUDIENCE to the audience; unlike names, the ids do not change.',
    issuer: 'https://app.terraform.io',
    subject: 'organization:ORGANIZATION:project:PROJECT:workspace:WORKSPACE:run_phase:*',
    claims: { terraform_organization_id: 'ORGANIZATION_ID', terraform_workspace_id: 'WORKSPACE_ID' },
  },
  {
    id: 'generic',
    name: 'Any OpenID Connect issuer',
    description: 'For any issuer that serves discovery and keys over https.',
    issuer: 'https://ISSUER',
    subject: 'SUBJECT',
    claims: {},
  },
]

export async function listIdentityPresets(ctx: Context, path: WorkspacePath): Promise<IdentityPreset[]> {
  await requireWorkspace(ctx, path, 'oidc:read')
  return forms.map((form) => ({ ...form, audience: ctx.config.publicUrl }))
}
