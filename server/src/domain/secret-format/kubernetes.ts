/** A Secret manifest for `kubectl apply`. The values are base64, which hides nothing but holds every byte. */
import type { Entry } from './entry.ts'
import { quote, quoteKey } from './yaml.ts'

export function writeKubernetes(entries: readonly Entry[], name: string): string {
  const data = entries.map(({ key, value }) => `  ${quoteKey(key)}: ${quote(Buffer.from(value).toString('base64'))}\n`)
  return [
    'apiVersion: v1\n',
    'kind: Secret\n',
    'metadata:\n',
    `  name: ${quote(dnsLabel(name))}\n`,
    'type: Opaque\n',
    entries.length === 0 ? 'data: {}\n' : 'data:\n',
    ...data,
  ].join('')
}

/** A DNS-1123 label, which Kubernetes takes as a name everywhere. */
function dnsLabel(name: string): string {
  const hyphenated = name
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
  const label = hyphenated.replace(/^-/, '').slice(0, 63).replace(/-$/, '')
  return label === '' ? 'secrets' : label
}
