/** Form fields about the account, shared by the AWS providers. */
import { isRegion, partitionIdOf, partitionOf, partitionOptions, regionOptions } from './aws-region.ts'
import type { Field, InputField, SelectField, Values } from './provider.ts'

export const isByRole = ({ method }: Values) => method === 'role'

export type PolicyFacts = { readonly syncId: string; readonly partition: string; readonly takesOver: boolean }

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
        'Attach it to the user of the access keys, or to the role. It allows creating entries for this sync and changing only these. If the sync may adopt existing entries, the review shows a policy that also allows adopting.',
      language: 'json',
      text: ({ syncId, values, takesOver }) => toJson(policy({ syncId, partition: partitionIdOf(values), takesOver })),
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
