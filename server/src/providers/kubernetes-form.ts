/** The wizard's fields for a cluster and a Secret in it. */
import { readCertificates } from './certificate-text.ts'
import { checkOrigin } from './origin.ts'
import type { Field, Problem, SelectField, Values } from './provider.ts'

const isLabel = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/
const isSubdomain = /^(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/

const commands = ({ namespace = 'shop', secret = 'my-app' }: Values) => `NAMESPACE=${namespace}
SECRET=${secret}
kubectl create serviceaccount coffer -n "$NAMESPACE"
kubectl create role "coffer-$SECRET" -n "$NAMESPACE" --verb=get,patch --resource=secrets --resource-name="$SECRET"
kubectl create rolebinding "coffer-$SECRET" -n "$NAMESPACE" --role="coffer-$SECRET" --serviceaccount="$NAMESPACE:coffer"
# Only if the Secret does not exist yet; Kubernetes cannot limit this right to one name.
kubectl create role coffer-create -n "$NAMESPACE" --verb=create --resource=secrets
kubectl create rolebinding coffer-create -n "$NAMESPACE" --role=coffer-create --serviceaccount="$NAMESPACE:coffer"
# The address, the CA, and a token. Many clusters shorten its lifetime.
kubectl config view --raw --minify --flatten -o jsonpath='{.clusters[0].cluster.server}{"\\n"}'
kubectl config view --raw --minify --flatten -o jsonpath='{.clusters[0].cluster.certificate-authority-data}{"\\n"}'
kubectl create token coffer -n "$NAMESPACE" --duration=8760h`

/** Keys that a Secret of each type must have; an inner list means any one of its keys. */
const requiredKeys: Readonly<Record<string, readonly (readonly string[])[]>> = {
  Opaque: [],
  'kubernetes.io/tls': [['tls.crt'], ['tls.key']],
  'kubernetes.io/basic-auth': [['username', 'password']],
  'kubernetes.io/ssh-auth': [['ssh-privatekey']],
}
const types = Object.keys(requiredKeys)

/** Required keys that a Secret of this type would lack with these keys. */
export function findMissing(type: string, keys: ReadonlySet<string>): Problem[] {
  return (requiredKeys[type] ?? []).flatMap((anyOf) => {
    const [name = ''] = anyOf
    if (anyOf.some((key) => keys.has(key))) return []
    const others = anyOf.length > 1 ? ` (or ${anyOf.slice(1).join(', ')})` : ''
    const problem = `is not pushed, but a Secret of type ${type} requires it${others}: add a secret with this name, or choose another Secret or type.`
    return [{ name, problem }]
  })
}

export const kubernetesAuth: readonly Field[] = [
  {
    kind: 'copy',
    id: 'commands',
    label: 'Create a service account',
    description:
      'Put your namespace and the name of the Secret in place of shop and my-app. The account can read and change this Secret, and create others in the namespace. A kubeconfig that uses a plug-in contains no token.',
    language: 'bash',
    text: ({ target }) => commands(target),
  },
  {
    kind: 'text',
    id: 'server',
    label: 'API server',
    placeholder: 'https://cluster.example.com:6443',
    isAddress: true,
    check: checkOrigin,
  },
  {
    kind: 'text',
    id: 'ca',
    label: 'CA certificate',
    description:
      'The certificate-authority-data of the kubeconfig, or PEM. Not needed if the server has a public certificate.',
    isOptional: true,
    isAuthority: true,
    check: (value) =>
      readCertificates(value) === undefined ? 'is not a PEM certificate, nor the base64 of one.' : undefined,
  },
  {
    kind: 'password',
    id: 'token',
    label: 'Token of the service account',
    check: (value) => (/^[\x21-\x7e]+$/.test(value) ? undefined : 'is not a token: it contains spaces or line breaks.'),
  },
]

export const kubernetesTarget = (namespaces: SelectField['options']): readonly Field[] => [
  {
    kind: 'select',
    id: 'namespace',
    label: 'Namespace',
    options: namespaces,
    check: (value) => (isLabel.test(value) ? undefined : 'is not the name of a namespace.'),
  },
  {
    kind: 'text',
    id: 'secret',
    label: 'Secret',
    description: 'Created if it does not exist.',
    placeholder: 'my-app',
    isFree: true,
    check: (value) =>
      isSubdomain.test(value)
        ? undefined
        : 'is not the name of a Secret: lower-case letters, digits, hyphens and dots.',
  },
  {
    kind: 'select',
    id: 'type',
    label: 'Type of a new Secret',
    description: 'An existing Secret keeps its type.',
    defaultValue: 'Opaque',
    options: types.map((type) => ({ label: type, value: type })),
  },
]

export const kubernetesOptions: readonly Field[] = [
  {
    kind: 'select',
    id: 'onConflict',
    label: 'Keys of this sync that others edited in the cluster',
    description: 'For keys that existed before the sync, use onExisting.',
    defaultValue: 'fail',
    options: [
      { label: 'Report and keep the edit', value: 'fail' },
      { label: 'Overwrite the edit', value: 'force' },
    ],
  },
]
