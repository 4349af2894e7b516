/**
 * AWS Secrets Manager: one secret per name. Each push writes one version under the operation's id, so that a retry
 * creates no second version. A delete keeps the vendor's recovery window.
 */
import { type AwsService, awsPlace, awsService, verifyAws } from './aws-account.ts'
import { awsAuth, awsKmsKey, awsRegion, inRegion, type PolicyFacts, withOurTags } from './aws-form.ts'
import type { AwsRefusal } from './aws-request.ts'
import { isOurs, ourTags } from './aws-tags.ts'
import { VendorFault } from './fault.ts'
import { applyEach, type Done, findFew } from './one-by-one.ts'
import type { Connection, Op, Provider, RemoteItem, Values } from './provider.ts'
import { at, entriesAt, listAt, maybeTextAt, textAt } from './vendor-json.ts'

type Write = Exclude<Op, { kind: 'delete' }>

/** Listing and description of a secret differ only in the field of its versions. */
function itemOf(secret: unknown, versions: string, syncId: string): RemoteItem {
  const mark = currentVersion(at(secret, versions))
  return {
    name: textAt(secret, 'Name'),
    isOurs: isOurs(at(secret, 'Tags'), syncId),
    ...(mark !== undefined && { mark }),
  }
}

function currentVersion(stagesByVersion: unknown): string | undefined {
  if (stagesByVersion === undefined || stagesByVersion === null) return undefined
  return entriesAt(stagesByVersion).find(([, stages]) => listAt(stages).includes('AWSCURRENT'))?.[0]
}

async function findSecret(aws: AwsService, name: string): Promise<unknown> {
  const { response, refusal } = await aws.call('DescribeSecret', { SecretId: name }, ['ResourceNotFoundException'])
  return refusal === undefined ? response.json : undefined
}

/** Some responses return null for a date that is not set. */
const isDeleted = (secret: unknown) => (at(secret, 'DeletedDate') ?? undefined) !== undefined

/** A listing may lag by minutes; a description does not. */
async function describeItem(aws: AwsService, name: string, syncId: string): Promise<RemoteItem | undefined> {
  const secret = await findSecret(aws, name)
  return secret === undefined || isDeleted(secret) ? undefined : itemOf(secret, 'VersionIdsToStages', syncId)
}

async function* listSecrets(aws: AwsService, wanted: ReadonlySet<string>, syncId: string): AsyncIterable<RemoteItem> {
  const [name] = wanted
  if (wanted.size === 1 && name !== undefined) {
    const item = await describeItem(aws, name, syncId)
    if (item) yield item
    return
  }
  const Values = prefixesOf([...wanted])
  const Filters = Values.length === 0 ? {} : { Filters: [{ Key: 'name', Values }] }
  let page = {}
  do {
    const { response } = await aws.call('ListSecrets', { MaxResults: 100, ...Filters, ...page })
    for (const secret of listAt(response.json, 'SecretList')) yield itemOf(secret, 'SecretVersionsToStages', syncId)
    const NextToken = maybeTextAt(response.json, 'NextToken')
    page = NextToken === undefined ? {} : { NextToken }
  } while ('NextToken' in page)
}

/** A filter takes ten name prefixes. For more names, only their common prefix can be used. */
function prefixesOf(names: readonly string[]): string[] {
  if (names.length <= 10) return [...names]
  const [first = '', ...others] = names
  let length = 0
  while (length < first.length && others.every((name) => name[length] === first[length])) length++
  return length === 0 ? [] : [first.slice(0, length)]
}

function writer(aws: AwsService, { syncId, options }: Connection) {
  const key = options.kmsKeyId ? { KmsKeyId: options.kmsKeyId } : {}

  async function create(op: Write): Promise<Done> {
    const input = { Name: op.name, SecretString: op.value, ClientRequestToken: op.operationId, ...key }
    const { response, refusal } = await aws.call('CreateSecret', { ...input, Tags: ourTags(syncId) }, [
      'ResourceExistsException',
      'InvalidRequestException',
    ])
    return refusal === undefined ? done(response.json) : takeBack(op, refusal)
  }

  async function update(op: Write): Promise<Done> {
    const expected = ['ResourceNotFoundException', 'InvalidRequestException']
    const { response, refusal } = await aws.call('PutSecretValue', versionOf(op), expected)
    if (refusal === undefined) return done(response.json)
    return refusal.code === 'ResourceNotFoundException' ? create(op) : takeBack(op, refusal)
  }

  /** The name is taken by an existing secret or by one in its recovery window. Writes to it only if it is ours. */
  async function takeBack(op: Write, { fault }: AwsRefusal): Promise<Done> {
    const secret = await findSecret(aws, op.name)
    if (secret === undefined) throw fault
    if (!isOurs(at(secret, 'Tags'), syncId)) {
      const state = isDeleted(secret) ? 'is scheduled for deletion' : 'already exists'
      throw new VendorFault(
        'conflict',
        `A secret with this name ${state} and does not belong to this sync.`,
        fault.facts,
      )
    }
    if (isDeleted(secret)) await aws.call('RestoreSecret', { SecretId: op.name })
    const { response } = await aws.call('PutSecretValue', versionOf(op))
    return done(response.json)
  }

  async function remove({ name }: Op): Promise<Done> {
    const window = { RecoveryWindowInDays: Number(options.recoveryDays ?? defaultRecoveryDays) }
    const expected = ['ResourceNotFoundException', 'InvalidRequestException']
    const { refusal } = await aws.call('DeleteSecret', { SecretId: name, ...window }, expected)
    if (refusal === undefined || refusal.code === 'ResourceNotFoundException') return {}
    if (!isDeleted(await findSecret(aws, name))) throw refusal.fault
    return {}
  }

  const versionOf = ({ name, value, operationId }: Write) => ({
    SecretId: name,
    SecretString: value,
    ClientRequestToken: operationId,
  })
  const done = (json: unknown): Done => ({ mark: textAt(json, 'VersionId') })

  return (op: Op) => (op.kind === 'delete' ? remove(op) : op.kind === 'create' ? create(op) : update(op))
}

const defaultRecoveryDays = '30'

/** The ends of the ARNs. AWS adds a hyphen and six characters to the name of a secret that exists. */
function namesOf({ mode, objectName = '', prefix = '', rename = '' }: Values): string[] {
  const exactly = (name: string) => [name, `${name}-??????`]
  if (mode === undefined) return ['PREFIX*']
  if (mode !== 'per-key') return exactly(objectName)
  // Without a prefix, any name may be one of the sync. Renamed keys get no prefix.
  const renamed = rename.split(',').map((pair) => pair.replace(/^[^=]*=/, '').trim())
  return prefix === '' ? ['*'] : [`${prefix}*`, ...renamed.filter((name) => name !== '').flatMap(exactly)]
}

function permissions({ syncId, partition, region, account, mapping, takesOver }: PolicyFacts) {
  const secrets = namesOf(mapping).map((name) => `arn:${partition}:secretsmanager:${region}:${account}:secret:${name}`)
  return {
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Action: 'secretsmanager:ListSecrets', Resource: '*', Condition: inRegion(region) },
      { Effect: 'Allow', Action: 'secretsmanager:DescribeSecret', Resource: secrets },
      {
        Effect: 'Allow',
        Action: ['secretsmanager:CreateSecret', 'secretsmanager:TagResource'],
        Resource: secrets,
        Condition: withOurTags(syncId),
      },
      {
        Effect: 'Allow',
        Action: ['secretsmanager:PutSecretValue', 'secretsmanager:DeleteSecret', 'secretsmanager:RestoreSecret'],
        Resource: secrets,
        Condition: { StringEquals: { 'aws:ResourceTag/coffer-sync': syncId } },
      },
      // A secret that is taken over keeps its tags and is never deleted.
      ...(takesOver
        ? [{ Sid: 'TakeOver', Effect: 'Allow', Action: 'secretsmanager:PutSecretValue', Resource: secrets }]
        : []),
    ],
  }
}

export const awsSecretsManager: Provider = {
  slug: 'aws-secrets-manager',
  name: 'AWS Secrets Manager',
  website: 'https://aws.amazon.com/secrets-manager/',
  docs: 'https://docs.aws.amazon.com/secretsmanager/latest/apireference/Welcome.html',
  glyph: { text: 'SM', colour: '#b0084d' },
  notes: [
    'AWS charges per secret, so all keys go into one secret as a JSON object, unless you choose one secret per key.',
    'Values are never read back. Changes by others are detected by the id of the current version.',
    'The list of secrets can lag behind changes by minutes.',
    'A deleted secret stays in the recovery window for 7 to 30 days, and is restored if its key is created again.',
    'AWS advises against names that end in a hyphen and six characters, because ARNs end like that.',
  ],
  capabilities: {
    read: 'mark',
    // Twice the five minutes that AWS names.
    listLagMs: 10 * 60_000,
    bulk: 1,
    mixes: false,
    ownerMark: 'tags',
    guard: 'mark',
    defaultMode: 'json',
  },
  limits: {
    name: /^[A-Za-z0-9/_+=.@-]+$/,
    nameHint: 'letters, digits and / _ + = . @ -',
    nameMax: 512,
    valueMaxBytes: 65_536,
    allowsEmpty: false,
    rate: { perSecond: 20, concurrency: 2 },
  },
  auth: awsAuth(permissions),
  verify: verifyAws,
  target: [awsRegion],
  options: [
    awsKmsKey('secrets created by this sync'),
    {
      kind: 'select',
      id: 'recoveryDays',
      label: 'Recovery window',
      description: 'How long a deleted secret can be restored.',
      defaultValue: defaultRecoveryDays,
      options: ['7', '14', '30'].map((value) => ({ label: `${value} days`, value })),
    },
  ],
  describeTarget: (target: Values, credential: Values) => ({
    label: target.region ?? '',
    fingerprint: awsPlace(target, credential),
  }),
  normaliseName: (name) => name,
  connect(connection) {
    const aws = awsService(connection, 'secretsmanager', 'secretsmanager')
    const { syncId } = connection
    return {
      list: (wanted) => listSecrets(aws, wanted, syncId),
      find: (entries) => findFew(entries, ({ name }) => describeItem(aws, name, syncId)),
      apply: (ops) => applyEach(ops, writer(aws, connection)),
    }
  },
}
