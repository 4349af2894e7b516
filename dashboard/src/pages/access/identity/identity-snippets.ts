/** How a pipeline or pod uses an identity, by its issuer. They follow docs/ci.md and docs/oidc.md. */
import type { Identity } from '@coffer/sdk'
import { type SecretPlace, type UseSnippet, workflow } from '../../grid/snippets.ts'

export function identitySnippet(identity: Identity, place: SecretPlace): UseSnippet {
  const { issuer, subject, audience } = identity
  if (issuer === 'https://token.actions.githubusercontent.com') {
    return {
      title: 'GitHub Actions',
      hint: 'The action of this repository proves who the job is, and sets a variable for each secret.',
      text: workflow(place).replace(/( +)url: .*/, (line, indent) =>
        audience === place.url ? line : `${line}\n${indent}audience: ${JSON.stringify(audience)}`,
      ),
    }
  }
  if (subject?.startsWith('project_path:')) {
    return {
      title: 'GitLab CI',
      hint: 'The command line finds COFFER_ID_TOKEN by itself.',
      text: gitlab(audience, place),
    }
  }
  if (subject?.startsWith('system:serviceaccount:')) {
    return {
      title: 'Kubernetes',
      hint: 'A projected token of the service account. In a pod, the command line finds it at this path by itself.',
      text: kubernetes(audience, place),
    }
  }
  if (issuer === 'https://app.terraform.io') {
    return {
      title: 'Terraform Cloud',
      hint: 'Set this variable of the workspace; the run then finds its token in TFC_WORKLOAD_IDENTITY_TOKEN.',
      text: `TFC_WORKLOAD_IDENTITY_AUDIENCE=${audience}`,
    }
  }
  return {
    title: 'Any other system',
    hint: 'ID_TOKEN is the token of the issuer. The answer is valid for 15 minutes.',
    text: exchange(place),
  }
}

const variables = ({ url, workspace, project, environment }: SecretPlace) => [
  ['COFFER_URL', url],
  ['COFFER_WORKSPACE', workspace],
  ['COFFER_PROJECT', project],
  ['COFFER_ENVIRONMENT', environment],
]

const gitlab = (audience: string, place: SecretPlace) => `deploy:
  image: node:24
  id_tokens:
    COFFER_ID_TOKEN:
      aud: ${JSON.stringify(audience)}
  variables:
${variables(place)
  .map(([name, value]) => `    ${name}: ${JSON.stringify(value)}`)
  .join('\n')}
  script:
    - coffer run --redact -- ./deploy.sh`

const kubernetes = (audience: string, place: SecretPlace) => `containers:
  - name: ${place.project}
    command: [coffer, run, --, node, server.js]
    env:
${variables(place)
  .map(([name, value]) => `      - { name: ${name}, value: ${JSON.stringify(value)} }`)
  .join('\n')}
    volumeMounts:
      - { name: coffer-token, mountPath: /var/run/coffer, readOnly: true }
volumes:
  - name: coffer-token
    projected:
      sources:
        - serviceAccountToken:
            audience: ${JSON.stringify(audience)}
            expirationSeconds: 600
            path: token`

const exchange = ({
  url,
  workspace,
}: SecretPlace) => `printf '{"token":"%s","workspaceId":"${workspace}"}' "$ID_TOKEN" |
  curl -sf ${url}/v1/auth/oidc/exchange -H 'Content-Type: application/json' -d @-`
