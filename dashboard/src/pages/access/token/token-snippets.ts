/** How a token is used where programs run. The token itself comes from a file or a protected variable, never from here. */
import type { Scope, TeamGroup, Workspace } from '@coffer/sdk'
import { reachedBy } from '../../../parts/scope/scope.ts'
import { dockerCommand, type SecretPlace, snippetsFor, type UseSnippet } from '../../grid/snippets.ts'

/** The first environment in reach, as an example. */
export function examplePlace(workspace: Workspace, scope: Scope, teams: readonly TeamGroup[]): SecretPlace {
  const first = reachedBy(scope, teams).find(({ environments }) => environments.length > 0)
  return {
    url: location.origin,
    workspace: workspace.slug,
    project: first?.project.slug ?? 'api',
    environment: first?.environments.at(-1) ?? 'production',
  }
}

/** For the External Secrets Operator, as docs/integration.md has it. */
const kubernetes = ({
  url,
  workspace,
  project,
  environment,
}: SecretPlace) => `kubectl create secret generic coffer-token --from-file=token=coffer-token
kubectl label secret coffer-token external-secrets.io/type=webhook
kubectl apply -f - <<'EOF'
apiVersion: external-secrets.io/v1
kind: SecretStore
metadata:
  name: coffer-environment
spec:
  provider:
    webhook:
      url: "${url}/v1/workspace/${workspace}/project/${project}/secret/export?environmentId=${encodeURIComponent(environment)}&format=json&resolve=true"
      headers:
        Authorization: "Bearer {{ .coffer.token }}"
      result:
        jsonPath: "$"
      secrets:
        - name: coffer
          secretRef:
            name: coffer-token
---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata:
  name: ${project}
spec:
  refreshInterval: 5m
  secretStoreRef:
    name: coffer-environment
  target:
    name: ${project}
  dataFrom:
    - extract:
        key: ${JSON.stringify(environment)}
EOF`

export function tokenSnippets(place: SecretPlace): readonly UseSnippet[] {
  return [
    ...snippetsFor(place).filter(({ title }) => title === 'In CI'),
    {
      title: 'In Docker',
      hint: 'The image holds the command line. Save the token as the file coffer-token.',
      text: dockerCommand(place),
    },
    {
      title: 'In Kubernetes',
      hint: 'With the External Secrets Operator. Save the token as the file coffer-token.',
      text: kubernetes(place),
    },
  ]
}
