/** Parameters of AWS Systems Manager, encrypted and under one path; a name is the part after the path. */
import { type AwsService, awsPlace, awsService, verifyAws } from './aws-account.ts'
import { awsAuth, awsKmsKey, awsRegion, type PolicyFacts } from './aws-form.ts'
import { isOurs, ourTags } from './aws-tags.ts'
import { VendorFault } from './fault.ts'
import { applyEach, type Done } from './one-by-one.ts'
import type { Connection, Op, OpResult, Provider, RemoteItem, Values } from './provider.ts'
import { listAt, maybeTextAt, textAt } from './vendor-json.ts'

type Write = Exclude<Op, { kind: 'delete' }>

const pathOf = ({ path = '' }: Values) => path.replace(/\/$/, '')
const fullName = (target: Values, name: string) => `${pathOf(target)}/${name}`

async function* pages(aws: AwsService, operation: string, input: object): AsyncIterable<unknown> {
  let page = {}
  do {
    const { response } = await aws.call(operation, { ...input, ...page })
    yield* listAt(response.json, 'Parameters')
    const NextToken = maybeTextAt(response.json, 'NextToken')
    page = NextToken === undefined ? {} : { NextToken }
  } while ('NextToken' in page)
}

/** The listing shows no tags, so a separate query finds the parameters with our tag. */
async function* listParameters(aws: AwsService, { target, syncId }: Connection): AsyncIterable<RemoteItem> {
  const path = pathOf(target)
  const marked = new Set<string>()
  const ParameterFilters = [
    { Key: 'Path', Option: 'OneLevel', Values: [path] },
    { Key: 'tag:coffer-sync', Values: [syncId] },
  ]
  for await (const parameter of pages(aws, 'DescribeParameters', { ParameterFilters, MaxResults: 50 })) {
    marked.add(textAt(parameter, 'Name'))
  }
  // Without decryption: the version shows changes, and the credential needs no right to read values.
  const input = { Path: path, Recursive: false, WithDecryption: false, MaxResults: 10 }
  for await (const parameter of pages(aws, 'GetParametersByPath', input)) {
    const name = textAt(parameter, 'Name')
    yield itemOf(parameter, path, marked.has(name))
  }
}

/** We write only SecureString, so a parameter of another type is not ours, even with our tags. */
function itemOf(parameter: unknown, path: string, isMarked: boolean): RemoteItem {
  const isOurs = isMarked && maybeTextAt(parameter, 'Type') === 'SecureString'
  return { name: textAt(parameter, 'Name').slice(path.length + 1), mark: textAt(parameter, 'Version'), isOurs }
}

/** Maximum number of names in one filter. */
const namesPerFilter = 50

/**
 * The first query finds all parameters with our tag. The second finds the remaining names, to distinguish foreign
 * parameters from missing ones.
 */
async function* findParameters(
  aws: AwsService,
  { target, syncId }: Connection,
  names: readonly string[],
): AsyncIterable<RemoteItem> {
  const path = pathOf(target)
  const missing = new Set(names.map((name) => fullName(target, name)))
  for (const ours of [[{ Key: 'tag:coffer-sync', Values: [syncId] }], []]) {
    if (missing.size === 0) return
    const ParameterFilters = [{ Key: 'Name', Option: 'Equals', Values: [...missing] }, ...ours]
    for await (const parameter of pages(aws, 'DescribeParameters', { ParameterFilters, MaxResults: namesPerFilter })) {
      missing.delete(textAt(parameter, 'Name'))
      yield itemOf(parameter, path, ours.length > 0)
    }
  }
}

function writer(aws: AwsService, { target, options, syncId }: Connection) {
  const Tags = ourTags(syncId)
  const tier = { Tier: options.tier ?? defaultTier }
  const key = options.kmsKeyId ? { KeyId: options.kmsKeyId } : {}

  const put = ({ name, value }: Write, more: object, expected: readonly string[] = []) => {
    const input = { Name: fullName(target, name), Value: value, Type: 'SecureString', ...tier, ...key, ...more }
    return aws.call('PutParameter', input, expected)
  }

  async function create(op: Write): Promise<Done> {
    const { response, refusal } = await put(op, { Overwrite: false, Tags }, ['ParameterAlreadyExists'])
    if (refusal === undefined) return done(response.json)
    if (!(await bearsOurTags(op.name))) {
      throw new VendorFault(
        'conflict',
        'A parameter with this name already exists and does not belong to this sync.',
        refusal.fault.facts,
      )
    }
    return done((await put(op, { Overwrite: true })).response.json)
  }

  async function update(op: Write): Promise<Done> {
    const { response, refusal } = await put(op, { Overwrite: true }, ['AccessDeniedException'])
    if (refusal === undefined) {
      // Version 1 means that the parameter was missing: the overwrite created it anew, without tags.
      if (textAt(response.json, 'Version') === '1') await tag(op.name)
      return done(response.json)
    }
    // Our policy denies overwriting an untagged parameter and creating one without tags.
    const anew = await put(op, { Overwrite: false, Tags }, ['ParameterAlreadyExists'])
    if (anew.refusal !== undefined) throw refusal.fault
    return done(anew.response.json)
  }

  const resource = (name: string) => ({ ResourceType: 'Parameter', ResourceId: fullName(target, name) })
  const tag = (name: string) => aws.call('AddTagsToResource', { ...resource(name), Tags })
  async function bearsOurTags(name: string): Promise<boolean> {
    const { response } = await aws.call('ListTagsForResource', resource(name))
    return isOurs(listAt(response.json, 'TagList'), syncId)
  }
  const done = (json: unknown): Done => ({ mark: textAt(json, 'Version') })

  return (op: Write) => (op.kind === 'create' ? create(op) : update(op))
}

/** Names that the response calls invalid were already gone. */
async function* removeAll(aws: AwsService, target: Values, ops: readonly Op[]): AsyncIterable<OpResult> {
  if (ops.length === 0) return
  const { response } = await aws.call('DeleteParameters', { Names: ops.map(({ name }) => fullName(target, name)) })
  const settled = [...listAt(response.json, 'DeletedParameters'), ...listAt(response.json, 'InvalidParameters')]
  for (const { name } of ops) if (settled.includes(fullName(target, name))) yield { name }
}

async function* applyOps(aws: AwsService, connection: Connection, ops: readonly Op[]): AsyncIterable<OpResult> {
  const writes = ops.filter((op) => op.kind !== 'delete')
  yield* applyEach(writes, writer(aws, connection))
  const deletes = ops.filter((op) => op.kind === 'delete')
  yield* removeAll(aws, connection.target, deletes)
}

const defaultTier = 'Standard'
const standardMaxBytes = 4_096

function permissions({ syncId, partition, takesOver }: PolicyFacts) {
  const parameters = `arn:${partition}:ssm:*:*:parameter/*`
  return {
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Action: 'ssm:DescribeParameters', Resource: '*' },
      { Effect: 'Allow', Action: ['ssm:GetParametersByPath', 'ssm:ListTagsForResource'], Resource: parameters },
      {
        Effect: 'Allow',
        Action: ['ssm:PutParameter', 'ssm:AddTagsToResource'],
        Resource: parameters,
        Condition: { StringEquals: { 'aws:RequestTag/coffer-sync': syncId } },
      },
      {
        Effect: 'Allow',
        Action: ['ssm:PutParameter', 'ssm:DeleteParameters'],
        Resource: parameters,
        Condition: { StringEquals: { 'aws:ResourceTag/coffer-sync': syncId } },
      },
      // A parameter that is taken over keeps its tags and is never deleted.
      ...(takesOver ? [{ Sid: 'TakeOver', Effect: 'Allow', Action: 'ssm:PutParameter', Resource: parameters }] : []),
    ],
  }
}

export const awsSsm: Provider = {
  slug: 'aws-ssm',
  name: 'AWS Parameter Store',
  website: 'https://aws.amazon.com/systems-manager/',
  docs: 'https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html',
  glyph: { text: 'PS', colour: '#7a1fa2' },
  notes: [
    'Each key becomes one SecureString under the path. Other parameters under the same path are left alone.',
    'Values are never read back. Changes by others are detected by the version.',
    'Values over 4 KB need the tier Intelligent-Tiering. AWS charges for it, and a parameter can never leave it again.',
    'AWS keeps 100 versions of a parameter, and refuses the next one if the oldest has a label.',
  ],
  capabilities: { read: 'mark', bulk: 10, mixes: false, ownerMark: 'tags', guard: 'mark', defaultMode: 'per-key' },
  limits: {
    name: /^[A-Za-z0-9_.-]+$/,
    nameHint: 'letters, digits and _ . -',
    // The vendor's limit of 1,011 applies to the whole ARN, including the path.
    nameMax: 400,
    valueMaxBytes: 8_192,
    allowsEmpty: false,
    maxItems: 10_000,
    refuseValue(value, { tier = defaultTier }) {
      if (value.includes('{{')) return 'contains {{, which Parameter Store treats as a reference to another parameter.'
      const isTooLarge = tier === 'Standard' && Buffer.byteLength(value) > standardMaxBytes
      return isTooLarge ? 'is larger than 4 KB, which only the tier Intelligent-Tiering accepts.' : undefined
    },
    rate: { perSecond: 3, concurrency: 1 },
  },
  auth: awsAuth(permissions),
  verify: verifyAws,
  target: [
    awsRegion,
    {
      kind: 'text',
      id: 'path',
      label: 'Path',
      description: 'Each key is stored under this path.',
      placeholder: '/shop/production/',
      check: (value) =>
        /^(?!\/(?:aws|ssm))(?=.{2,500}$)(?:\/[A-Za-z0-9_.-]+){1,14}\/?$/i.test(value)
          ? undefined
          : 'must look like /shop/production/, have at most 14 levels, and not start with aws or ssm.',
    },
  ],
  options: [
    {
      kind: 'select',
      id: 'tier',
      label: 'Tier',
      isStored: true,
      defaultValue: defaultTier,
      options: [
        { label: 'Standard: up to 4 KB', value: 'Standard' },
        { label: 'Intelligent-Tiering: AWS charges for larger values', value: 'Intelligent-Tiering' },
      ],
    },
    { ...awsKmsKey('the parameters'), isStored: true },
  ],
  describeTarget: (target, credential) => ({
    label: `${target.region} ${pathOf(target)}/`,
    fingerprint: `${awsPlace(target, credential)}${pathOf(target)}/`,
  }),
  normaliseName: (name) => name,
  connect(connection) {
    const aws = awsService(connection, 'ssm', 'AmazonSSM')
    return {
      list: () => listParameters(aws, connection),
      find: (entries) =>
        entries.length > namesPerFilter
          ? undefined
          : findParameters(
              aws,
              connection,
              entries.map(({ name }) => name),
            ),
      apply: (ops) => applyOps(aws, connection, ops),
    }
  },
}
