/** AWS Secrets Manager in one region; driven by @aws-sdk/client-secrets-manager in aws-secrets-manager.test.ts. */
import type { Fake, FakeAnswer } from '../fake.ts'
import { type AwsFormat, type AwsPolicy, accept, awsAccount, awsAnswers, awsKeys, refuse, withAbsent } from './aws.ts'

const region = 'eu-central-1'
/** The name of a KMS key that somebody has disabled. */
export const disabledKey = 'alias/disabled'

type Version = { id: string; value: string }
type Tag = { Key: string; Value: string }
type Secret = { versions: Version[]; tags: Tag[]; kmsKeyId?: string | undefined; deletedAt?: number }
type SecretInput = {
  Name: string
  SecretId: string
  SecretString: string
  ClientRequestToken: string
  Tags?: Tag[]
  KmsKeyId?: string
  RecoveryWindowInDays?: number
  ForceDeleteWithoutRecovery?: boolean
  MaxResults?: number
  NextToken?: string
  IncludePlannedDeletion?: boolean
  Filters?: { Key: string; Values: string[] }[]
}

export type FakeSecretsManager = Fake & {
  /** The stored secret, active or in its recovery window. */
  secret(name: string): Secret | undefined
  /** Adds a foreign secret in its recovery window. */
  plantDeleted(name: string): void
  /** Lists show the secrets as they are now, whatever changes later: at AWS a list can be minutes old. */
  freezeList(): void
  /** Restricts the credential to this policy from now on. */
  enforce(policy: AwsPolicy): void
}

export function fakeSecretsManager(
  parts: { externalId?: string; clock?: () => number; format?: AwsFormat } = {},
): FakeSecretsManager {
  const { format = 'plain' } = parts
  const secrets = new Map<string, Secret>()
  const violations: string[] = []
  let isOpen = true
  let tampered = 0
  let policy: AwsPolicy | undefined
  let frozen: ReadonlyMap<string, Secret> | undefined

  const arn = (name: string) => `arn:aws:secretsmanager:${region}:${awsAccount}:secret:${name}-AbCdEf`
  const gone = () => refuse('ResourceNotFoundException', "Secrets Manager can't find the specified secret.")
  const marked = () =>
    refuse(
      'InvalidRequestException',
      "You can't perform this operation on the secret because it was marked for deletion.",
    )
  const versionAnswer = (name: string, secret: Secret) =>
    accept({ ARN: arn(name), Name: name, VersionId: secret.versions.at(-1)?.id, VersionStages: ['AWSCURRENT'] })

  function valueProblem(name: string, { SecretString: value, ClientRequestToken: token }: SecretInput) {
    const isGood = /^[A-Za-z0-9/_+=.@-]{1,512}$/.test(name) && !fake.refusedNames.has(name)
    if (!isGood) return refuse('InvalidParameterException', `Invalid name ${name}; the value was ${value}`)
    const bytes = Buffer.byteLength(value)
    if (bytes < 1 || bytes > 65_536) return refuse('InvalidParameterException', `Invalid length of value: ${value}`)
    if (!/^.{32,64}$/.test(token)) return refuse('InvalidParameterException', 'ClientRequestToken is invalid')
    return undefined
  }

  /** A known request token is the same version again, or a conflict. */
  function addVersion(name: string, secret: Secret, { ClientRequestToken: id, SecretString: value }: SecretInput) {
    const known = secret.versions.find((version) => version.id === id)
    if (known !== undefined && known.value !== value) {
      return refuse('ResourceExistsException', `A version with the token ${id} exists already.`)
    }
    if (known === undefined) secret.versions.push({ id, value })
    return versionAnswer(name, secret)
  }

  const operations = {
    CreateSecret(input: SecretInput): FakeAnswer {
      const { Name: name, Tags: tags = [], KmsKeyId: kmsKeyId } = input
      const problem = valueProblem(name, input)
      if (problem !== undefined) return problem
      if (kmsKeyId === disabledKey) {
        const message =
          "Secrets Manager can't encrypt the protected secret text using the provided KMS key. Check that the KMS key is available, enabled, and not in an invalid state."
        return refuse('EncryptionFailure', message)
      }
      const known = secrets.get(name)
      if (known?.deletedAt !== undefined) {
        const message =
          "You can't create this secret because a secret with this name is already scheduled for deletion."
        return refuse('InvalidRequestException', message)
      }
      if (known?.versions.some(({ id }) => id === input.ClientRequestToken)) return addVersion(name, known, input)
      if (known)
        return refuse('ResourceExistsException', `The operation failed because the secret ${name} already exists.`)
      const secret: Secret = { versions: [], tags, kmsKeyId }
      secrets.set(name, secret)
      return addVersion(name, secret, input)
    },

    PutSecretValue(input: SecretInput): FakeAnswer {
      const { SecretId: name } = input
      const secret = secrets.get(name)
      if (secret === undefined) return gone()
      if (secret.deletedAt !== undefined) return marked()
      return valueProblem(name, input) ?? addVersion(name, secret, input)
    },

    DeleteSecret({ SecretId: name, RecoveryWindowInDays: days = 30, ForceDeleteWithoutRecovery }: SecretInput) {
      const secret = secrets.get(name)
      if (ForceDeleteWithoutRecovery) violations.push(`${name}: deleted for good`)
      if (days < 7 || days > 30) return refuse('InvalidParameterException', 'RecoveryWindowInDays must be 7 to 30.')
      if (secret === undefined) return gone()
      if (secret.deletedAt !== undefined) return marked()
      secret.deletedAt = 1_800_000_000 + days * 86_400
      return accept({ ARN: arn(name), Name: name, DeletionDate: secret.deletedAt })
    },

    RestoreSecret({ SecretId: name }: SecretInput): FakeAnswer {
      const secret = secrets.get(name)
      if (secret === undefined) return gone()
      delete secret.deletedAt
      return accept({ ARN: arn(name), Name: name })
    },

    DescribeSecret({ SecretId: name }: SecretInput): FakeAnswer {
      const secret = secrets.get(name)
      return secret === undefined ? gone() : accept({ ...entry(name, secret), VersionIdsToStages: stages(secret) })
    },

    ListSecrets({ MaxResults = 100, NextToken, IncludePlannedDeletion, Filters = [] }: SecretInput): FakeAnswer {
      if (MaxResults < 1 || MaxResults > 100) return refuse('InvalidParameterException', 'MaxResults')
      for (const { Key, Values } of Filters) {
        const isGood = Key === 'name' && Values.length > 0 && Values.length <= 10
        if (!isGood) return refuse('InvalidParameterException', 'Filters')
      }
      const from = NextToken === undefined ? 0 : Number(NextToken.replace('page-', ''))
      const size = Math.min(MaxResults, fake.pageSize ?? MaxResults)
      const found = [...(frozen ?? secrets)].filter(
        ([name, { deletedAt }]) =>
          (IncludePlannedDeletion || deletedAt === undefined) &&
          Filters.every(({ Values }) => Values.some((prefix) => name.startsWith(prefix))),
      )
      const SecretList = found
        .slice(from, from + size)
        .map(([name, secret]) => ({ ...entry(name, secret), SecretVersionsToStages: stages(secret) }))
      const next = from + size < found.length && { NextToken: `page-${from + size}` }
      return accept(withAbsent(format, { SecretList, ...next }, ['NextToken']))
    },
  }

  /** Omits empty tags and dates. */
  const entry = (name: string, { tags, deletedAt }: Secret) => {
    const fields = {
      ARN: arn(name),
      Name: name,
      ...(tags.length > 0 && { Tags: tags }),
      ...(deletedAt !== undefined && { DeletedDate: deletedAt }),
    }
    return withAbsent(format, fields, ['Tags', 'DeletedDate', 'KmsKeyId', 'RotationEnabled'])
  }

  const stages = ({ versions }: Secret) =>
    Object.fromEntries(
      versions.slice(-2).map(({ id }) => [id, [id === versions.at(-1)?.id ? 'AWSCURRENT' : 'AWSPREVIOUS']]),
    )

  const version = (value: string): Version => ({ id: `tampered-${String(++tampered).padStart(30, '0')}`, value })

  const fake: FakeSecretsManager = {
    hosts: [`secretsmanager.${region}.amazonaws.com`, `sts.${region}.amazonaws.com`, 'sts.amazonaws.com'],
    credential: { method: 'keys', ...awsKeys },
    wrongCredential: { method: 'keys', ...awsKeys, accessKeyId: 'AKIARTX3GSDSQCCCCCCC' },
    target: { region },
    options: { recoveryDays: '7' },
    answer: awsAnswers({
      format,
      policy: () => policy,
      resourcesOf(input) {
        const { SecretId, Name } = input as Partial<SecretInput>
        const name = SecretId ?? Name
        if (name === undefined) return []
        const known = secrets.get(name)
        return [{ arn: known ? arn(name) : arn(name).replace(/-AbCdEf$/, ''), tags: known?.tags ?? [] }]
      },
      service: 'secretsmanager',
      model: 'secretsmanager-2017-10-17',
      targetPrefix: 'secretsmanager',
      region,
      operations,
      violations,
      externalId: parts.externalId ?? '',
      clock: parts.clock,
      isOpen: () => isOpen,
    }),
    violations,
    state: () =>
      new Map(
        [...secrets]
          .filter(([, { deletedAt }]) => deletedAt === undefined)
          .map(([name, { versions }]) => [name, versions.at(-1)?.value ?? '']),
      ),
    tamper(name, value) {
      const secret = secrets.get(name)
      if (value === undefined) secrets.delete(name)
      else if (secret === undefined) secrets.set(name, { versions: [version(value)], tags: [] })
      else secret.versions.push(version(value))
    },
    setTarget: (value) => {
      isOpen = value
    },
    pageSize: 100,
    refusedNames: new Set(),
    calls: { list: (count) => Math.ceil(count / 100), update: 1, look: 1 },
    secret: (name) => secrets.get(name),
    freezeList() {
      frozen = structuredClone(secrets)
    },
    enforce: (next) => {
      policy = next
    },
    plantDeleted: (name) =>
      void secrets.set(name, { versions: [version('theirs')], tags: [], deletedAt: 1_800_000_000 }),
  }
  return fake
}
