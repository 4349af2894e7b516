/** Parameters of AWS Systems Manager, encrypted and under one path; a name is the part after the path. */
import { type AwsService, awsPlace, awsService, verifyAws } from './aws-account.ts'
import { awsAuth, awsKmsKey, awsRegion, inRegion, type PolicyFacts, withOurTags } from './aws-form.ts'
import { isOurs, ourTags } from './aws-tags.ts'
import { VendorFault } from './fault.ts'
import { applyEach, type Done } from './one-by-one.ts'
import type { Connection, KnownItem, Op, OpResult, Provider, RemoteItem, Values } from './provider.ts'
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

type Filter = { readonly Key: string; readonly Option?: string; readonly Values: readonly string[] }

/** Describes parameters: names, types and versions, never values. */
const described = (aws: AwsService, ParameterFilters: readonly Filter[]) =>
  pages(aws, 'DescribeParameters', { ParameterFilters, MaxResults: namesPerFilter })

const ourFilter = ({ syncId }: Connection): Filter => ({ Key: 'tag:coffer-sync', Values: [syncId] })

/** A description shows no tags, so a separate query finds the parameters with our tag. */
async function* listParameters(aws: AwsService, connection: Connection): AsyncIterable<RemoteItem> {
  const path = pathOf(connection.target)
  const marked = new Set<string>()
  const under: Filter = { Key: 'Path', Option: 'OneLevel', Values: [path] }
  for await (const parameter of described(aws, [under, ourFilter(connection)])) marked.add(textAt(parameter, 'Name'))
  for await (const parameter of described(aws, [under])) {
    const name = textAt(parameter, 'Name')
    const isUnder = name.startsWith(`${path}/`) && !name.includes('/', path.length + 1)
    if (isUnder) yield itemOf(parameter, path, marked.has(name))
  }
}

/** We write only SecureString, so a parameter of another type is not ours, even with our tags. */
function itemOf(parameter: unknown, path: string, isMarked: boolean): RemoteItem {
  const isOurs = isMarked && maybeTextAt(parameter, 'Type') === 'SecureString'
  return { name: textAt(parameter, 'Name').slice(path.length + 1), mark: textAt(parameter, 'Version'), isOurs }
}

/** Maximum number of names in one filter, and of parameters in one page. */
const namesPerFilter = 50

/**
 * The first query finds all parameters with our tag. The second finds the remaining names, to distinguish foreign
 * parameters from missing ones.
 */
async function* findParameters(
  aws: AwsService,
  connection: Connection,
  entries: readonly KnownItem[],
): AsyncIterable<RemoteItem> {
  const { target } = connection
  const missing = new Set(entries.map(({ name }) => fullName(target, name)))
  for (const ours of [[ourFilter(connection)], []]) {
    if (missing.size === 0) return
    const named: Filter = { Key: 'Name', Option: 'Equals', Values: [...missing] }
    for await (const parameter of described(aws, [named, ...ours])) {
      if (missing.delete(textAt(parameter, 'Name'))) yield itemOf(parameter, pathOf(target), ours.length > 0)
    }
  }
}

/**
 * Reads the tags of one parameter. Servers other than AWS may ignore the filter by tag, so its results are confirmed
 * where a mistake would cost someone else's parameter. Undefined if the parameter does not exist.
 */
async function bearsOurTags(aws: AwsService, { target, syncId }: Connection, name: string) {
  const resource = { ResourceType: 'Parameter', ResourceId: fullName(target, name) }
  const { response, refusal } = await aws.call('ListTagsForResource', resource, ['InvalidResourceId'])
  return refusal === undefined ? isOurs(listAt(response.json, 'TagList'), syncId) : undefined
}

function writer(aws: AwsService, connection: Connection) {
  const { target, options, syncId } = connection
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
    if (!(await bearsOurTags(aws, connection, op.name))) throw taken(refusal.fault.facts)
    return done((await put(op, { Overwrite: true })).response.json)
  }

  async function update(op: Write): Promise<Done> {
    const isUnsure = op.kind === 'update' && op.isUnconfirmed === true
    if (isUnsure && (await bearsOurTags(aws, connection, op.name)) === false) throw taken()
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

  const tag = (name: string) =>
    aws.call('AddTagsToResource', { ResourceType: 'Parameter', ResourceId: fullName(target, name), Tags })
  const taken = (facts: VendorFault['facts'] = {}) =>
    new VendorFault('conflict', 'A parameter with this name already exists and does not belong to this sync.', facts)
  const done = (json: unknown): Done => ({ mark: textAt(json, 'Version') })

  return (op: Write) => (op.kind === 'create' ? create(op) : update(op))
}

/** Names that the response calls invalid were already gone. */
async function* removeAll(aws: AwsService, connection: Connection, ops: readonly Op[]): AsyncIterable<OpResult> {
  const { target } = connection
  const ours: string[] = []
  for (const { name } of ops) {
    const isOurs = await bearsOurTags(aws, connection, name)
    if (isOurs) ours.push(name)
    else yield isOurs === false ? { name, isKept: true, note: 'The parameter stays: it lacks our tags.' } : { name }
  }
  if (ours.length === 0) return
  const { response } = await aws.call('DeleteParameters', { Names: ours.map((name) => fullName(target, name)) })
  const settled = [...listAt(response.json, 'DeletedParameters'), ...listAt(response.json, 'InvalidParameters')]
  for (const name of ours) if (settled.includes(fullName(target, name))) yield { name }
}

async function* applyOps(aws: AwsService, connection: Connection, ops: readonly Op[]): AsyncIterable<OpResult> {
  const writes = ops.filter((op) => op.kind !== 'delete')
  yield* applyEach(writes, writer(aws, connection))
  const deletes = ops.filter((op) => op.kind === 'delete')
  yield* removeAll(aws, connection, deletes)
}

const defaultTier = 'Standard'
const standardMaxBytes = 4_096

function permissions({ syncId, partition, region, account, target, takesOver }: PolicyFacts) {
  const parameters = `arn:${partition}:ssm:${region}:${account}:parameter${pathOf(target) || '/PATH'}/*`
  return {
    Version: '2012-10-17',
    Statement: [
      { Effect: 'Allow', Action: 'ssm:DescribeParameters', Resource: '*', Condition: inRegion(region) },
      { Effect: 'Allow', Action: 'ssm:ListTagsForResource', Resource: parameters },
      {
        Effect: 'Allow',
        Action: ['ssm:PutParameter', 'ssm:AddTagsToResource'],
        Resource: parameters,
        Condition: withOurTags(syncId),
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
    'Before a parameter is deleted, or taken for one of the sync without being in its ledger, Coffer reads its own tags.',
    'Values over 4 KB need the tier Intelligent-Tiering. AWS charges for it, and a parameter can never leave it again.',
    'AWS keeps 100 versions of a parameter, and refuses the next one if the oldest has a label.',
  ],
  capabilities: {
    read: 'mark',
    findsPerCall: namesPerFilter,
    bulk: 10,
    mixes: false,
    ownerMark: 'tags',
    guard: 'mark',
    defaultMode: 'per-key',
  },
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
      find: (entries) => (entries.length > namesPerFilter ? undefined : findParameters(aws, connection, entries)),
      apply: (ops) => applyOps(aws, connection, ops),
    }
  },
}
