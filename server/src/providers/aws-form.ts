/** Form fields about the account, shared by the AWS providers. */
import { isRegion, partitionIdOf, partitionOf, partitionOptions, regionOptions } from './aws-region.ts'
import { type CopyFacts, type Field, type InputField, ownerTags, type SelectField, type Values } from './provider.ts'

export const isByRole = ({ method }: Values) => method === 'role'

/** Words in capitals stand for what is not known yet. */
export type PolicyFacts = Omit<CopyFacts, 'values'> & {
  readonly partition: string
  readonly region: string
  readonly account: string
}

/** For actions that IAM cannot limit to resources. */
export const inRegion = (region: string) => ({ StringEquals: { 'aws:RequestedRegion': region } })

/** Only the tags of the sync may be set, and never on an entry of another sync. */
export const withOurTags = (syncId: string) => ({
  StringEquals: { 'aws:RequestTag/coffer-sync': syncId },
  StringEqualsIfExists: { 'aws:ResourceTag/coffer-sync': syncId },
  'ForAllValues:StringEquals': { 'aws:TagKeys': Object.keys(ownerTags(syncId)) },
})

/**
 * The account of a credential. A role's ARN names it; in a newer access key id, whose first bit is set, the next 40 bits
 * are the account.
 */
export function accountOf({ method, roleArn = '', accessKeyId = '' }: Values): string | undefined {
  if (method === 'role') return roleArn.split(':')[4]
  const digits = [...accessKeyId.slice(4, 13)].map((letter) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter))
  const [first = 0] = digits
  if (digits.length < 9 || digits.includes(-1) || first < 16) return undefined
  const bits = digits.reduce((sum, digit) => sum * 32 + digit, 0)
  return String(Math.floor(bits / 16) % 2 ** 40).padStart(12, '0')
}

/** `policy` returns the permissions that the user or role needs. */
export function awsAuth(policy: (facts: PolicyFacts) => unknown): readonly Field[] {
  return [
    {
      kind: 'select',
      id: 'method',
      label: 'Sign in with',
      defaultValue: 'keys',
      options: [
        { label: 'Access keys', value: 'keys' },
        { label: 'Access keys that assume a role', value: 'role' },
      ],
    },
    {
      kind: 'select',
      id: 'partition',
      label: 'Partition',
      defaultValue: 'aws',
      options: partitionOptions,
    },
    {
      kind: 'copy',
      id: 'policy',
      label: 'Permissions policy',
      description:
        'Attach it to the user of the access keys, or to the role. Replace the words REGION, ACCOUNT, PATH and PREFIX: the review shows the policy with the answers filled in, and with the right to adopt if the sync may. It allows creating entries for this sync and changing only those with its tags. The right to tag cannot be limited to new entries: with it, the holder of the credential can put these tags on any entry of these names that has none, and then overwrite or delete it. The names of all entries in the region are visible.',
      language: 'json',
      text: ({ values, ...facts }) => {
        const { region = 'REGION' } = facts.target
        const account = accountOf(values) || 'ACCOUNT'
        return toJson(policy({ ...facts, partition: partitionIdOf(values), region, account }))
      },
    },
    {
      kind: 'text',
      id: 'accessKeyId',
      label: 'Access key ID',
      placeholder: 'AKIA…',
      check: (value) => (/^[A-Z0-9]{16,128}$/.test(value) ? undefined : 'is not an access key ID.'),
    },
    { kind: 'password', id: 'secretAccessKey', label: 'Secret access key' },
    {
      kind: 'copy',
      id: 'trustPolicy',
      label: 'Trust policy of the role',
      description:
        'Replace the principal with the user of the access keys. This user needs sts:AssumeRole on the role.',
      language: 'json',
      when: isByRole,
      text: ({ syncId, values }) => toJson(trustPolicy(syncId, partitionIdOf(values))),
    },
    {
      kind: 'text',
      id: 'roleArn',
      label: 'ARN of the role',
      placeholder: 'arn:aws:iam::111122223333:role/coffer',
      when: isByRole,
      check: (value) =>
        /^arn:aws(-[a-z]+)*:iam::\d{12}:role\/[\w+=,.@/-]{1,576}$/.test(value)
          ? undefined
          : 'is not the ARN of a role.',
    },
  ]
}

/** The sync's id is the external id, so that no other sync or installation can assume the role. */
const trustPolicy = (syncId: string, partition: string) => ({
  Version: '2012-10-17',
  Statement: [
    {
      Effect: 'Allow',
      Principal: { AWS: `arn:${partition}:iam::ACCOUNT_OF_THE_KEYS:user/USER_OF_THE_KEYS` },
      Action: 'sts:AssumeRole',
      Condition: { StringEquals: { 'sts:ExternalId': syncId } },
    },
  ],
})

const toJson = (policy: unknown) => JSON.stringify(policy, null, 2)

export const awsRegion: SelectField = {
  kind: 'select',
  id: 'region',
  label: 'Region',
  placeholder: 'Choose a region',
  options: async ({ credential }) => regionOptions(partitionOf(credential)),
  check: (value) => (isRegion(value) ? undefined : 'is not a region.'),
}

/** `what`: the things that the key encrypts. */
export const awsKmsKey = (what: string): InputField => ({
  kind: 'text',
  id: 'kmsKeyId',
  label: 'KMS key',
  description: `Encrypts ${what}. If empty, the AWS managed key of the account. A key of your own needs permissions too.`,
  placeholder: 'alias/coffer',
  isOptional: true,
  check: (value) => (/^[A-Za-z0-9:/_-]{0,2048}$/.test(value) ? undefined : 'is not the id, alias or ARN of a KMS key.'),
})
