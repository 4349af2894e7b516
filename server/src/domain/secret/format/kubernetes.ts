/** A Secret manifest for `kubectl apply`. Values are base64, which hides nothing but can hold every byte. */
import { type Entry, quoteForYaml, quoteKeyForYaml, refuseKey } from '@coffer/contract/secret-format'
import type { WriteOptions } from './entry.ts'

const maxKeyLength = 253

export function* writeKubernetes(entries: readonly Entry[], { name }: WriteOptions): Generator<string> {
  yield 'apiVersion: v1\n'
  yield 'kind: Secret\n'
  yield 'metadata:\n'
  yield `  name: ${quoteForYaml(dnsLabel(name))}\n`
  yield 'type: Opaque\n'
  yield entries.length === 0 ? 'data: {}\n' : 'data:\n'
  for (const { key, value } of entries) {
    yield `  ${quoteKeyForYaml(requireShort(key))}: "${Buffer.from(value).toString('base64')}"\n`
  }
}

function requireShort(key: string): string {
  if (key.length <= maxKeyLength) return key
  throw refuseKey('k8s', key, `a key of a Secret has ${maxKeyLength} characters at most`)
}

/** A DNS-1123 label, which Kubernetes accepts as a name everywhere. */
function dnsLabel(name: string): string {
  const hyphenated = name
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
  const label = hyphenated.replace(/^-/, '').slice(0, 63).replace(/-$/, '')
  return label === '' ? 'secrets' : label
}
