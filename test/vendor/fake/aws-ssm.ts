/** AWS Parameter Store in one region; driven by @aws-sdk/client-ssm in aws-ssm.test.ts. */
import type { Fake, FakeAnswer } from '../fake.ts'
import { type AwsFormat, type AwsPolicy, accept, awsAccount, awsAnswers, awsKeys, refuse, withAbsent } from './aws.ts'

const region = 'eu-central-1'
const path = '/shop/production'
/** The name of a KMS key that somebody has disabled. */
export const disabledKey = 'alias/disabled'

type Tag = { Key: string; Value: string }
type Parameter = { value: string; version: number; type: string; tags: Tag[]; keyId?: string | undefined }
type Page = { MaxResults?: number; NextToken?: string }
type PutInput = {
  Name: string
  Value: string
  Type?: string
  Overwrite?: boolean
  Tags?: Tag[]
  Tier?: string
  KeyId?: string
}
type Filter = { Key: string; Option?: string; Values?: string[] }
type Resource = { ResourceType: string; ResourceId: string }

export type FakeSsm = Fake & {
  /** By full name. */
  parameter(name: string): Parameter | undefined
  /** Restricts the credential to this policy from now on. */
  enforce(policy: AwsPolicy): void
}

/** The parameters named by an input; empty if it concerns all. */
function namesIn(input: unknown): string[] {
  const { Name, Names, ResourceId } = input as { Name?: string; Names?: string[]; ResourceId?: string }
  const one = Name ?? ResourceId
  return Names ?? (one === undefined ? [] : [one])
}

type Parts = {
  externalId?: string
  clock?: () => number
  format?: AwsFormat
  /** False for a server that ignores the filter by tag. */
  filtersTags?: boolean
}

export function fakeSsm(parts: Parts = {}): FakeSsm {
  const { format = 'plain', filtersTags = true } = parts
  const parameters = new Map<string, Parameter>()
  const violations: string[] = []
  let isOpen = true
  let policy: AwsPolicy | undefined

  const invalid = (message: string) => refuse('ValidationException', message)

  function putProblem({
    Name,
    Value,
    Type,
    Overwrite,
    Tags,
    Tier = 'Standard',
    KeyId,
  }: PutInput): FakeAnswer | undefined {
    const known = parameters.get(Name)
    if (!/^(\/[a-zA-Z0-9_.-]+){1,15}$/.test(Name) || /^\/?(aws|ssm)/i.test(Name))
      return invalid(`Parameter name: ${Name}`)
    if (fake.refusedNames.has(Name.slice(path.length + 1))) return invalid(`${Name} is refused with the value ${Value}`)
    if (Overwrite && Tags) return invalid("Invalid request: tags and overwrite can't be used together.")
    if (Value.includes('{{')) return invalid(`Parameter value can't nest another parameter: ${Value}`)
    if (KeyId === disabledKey)
      return refuse('InvalidKeyId', `arn:aws:kms:${region}:${awsAccount}:${KeyId} is disabled.`)
    if (Value === '') return invalid("Value at 'value' failed to satisfy constraint: Member must have length >= 1")
    if (Buffer.byteLength(Value) > (Tier === 'Standard' ? 4_096 : 8_192)) return invalid('Value is too long')
    if (Type === undefined && known === undefined) return invalid('A parameter type is required')
    if (!['Standard', 'Advanced', 'Intelligent-Tiering'].includes(Tier)) return invalid('Tier')
    if (known && !Overwrite) {
      return refuse(
        'ParameterAlreadyExists',
        'The parameter already exists. To overwrite this value, set the overwrite option in the request to true.',
      )
    }
    return undefined
  }

  function paged(found: string[], { MaxResults = 10, NextToken = '0' }: Page, maximum: number) {
    if (MaxResults < 1 || MaxResults > maximum) violations.push(`MaxResults is ${MaxResults}`)
    const from = Number(NextToken)
    const end = from + Math.min(MaxResults, fake.pageSize ?? MaxResults)
    return { names: found.slice(from, end), next: end < found.length ? { NextToken: String(end) } : {} }
  }

  const lies = (name: string, folder: string) => name.startsWith(`${folder}/`) && !name.includes('/', folder.length + 1)
  const under = (folder: string) => [...parameters.keys()].filter((name) => lies(name, folder))

  function matches(name: string, { Key, Option, Values = [] }: Filter): boolean {
    const isGood = Key === 'Path' ? Option === 'OneLevel' || Option === 'Recursive' : /^(tag:.+|Name)$/.test(Key)
    if (!isGood || Values.length < 1 || Values.length > 50) violations.push(`filter ${Key} ${Option} ${Values.length}`)
    if (Key === 'Name') return Option === 'Equals' && Values.includes(name)
    if (Key === 'Path') return Values.some((folder) => lies(name, folder))
    const tags = parameters.get(name)?.tags ?? []
    return !filtersTags || tags.some((tag) => `tag:${tag.Key}` === Key && Values.includes(tag.Value))
  }

  const operations = {
    PutParameter(input: PutInput): FakeAnswer {
      const problem = putProblem(input)
      if (problem !== undefined) return problem
      const known = parameters.get(input.Name)
      const version = (known?.version ?? 0) + 1
      parameters.set(input.Name, {
        value: input.Value,
        version,
        type: input.Type ?? known?.type ?? '',
        tags: known?.tags ?? input.Tags ?? [],
        keyId: input.KeyId,
      })
      return accept({ Version: version, Tier: 'Standard' })
    },

    DescribeParameters(input: Page & { ParameterFilters?: Filter[] }): FakeAnswer {
      const { ParameterFilters: filters = [] } = input
      const found = [...parameters.keys()].filter((name) => filters.every((filter) => matches(name, filter)))
      const { names, next } = paged(found, input, 50)
      const Parameters = names.map((name) => {
        const { version, type } = parameters.get(name) as Parameter
        return { Name: name, Type: type, Version: version, Tier: 'Standard' }
      })
      return accept(withAbsent(format, { Parameters, ...next }, ['NextToken']))
    },

    DeleteParameters({ Names }: { Names: string[] }): FakeAnswer {
      if (Names.length < 1 || Names.length > 10) return invalid('Names: at most 10')
      const DeletedParameters = Names.filter((name) => parameters.delete(name))
      return accept({ DeletedParameters, InvalidParameters: Names.filter((name) => !DeletedParameters.includes(name)) })
    },

    ListTagsForResource({ ResourceType, ResourceId }: Resource): FakeAnswer {
      if (ResourceType !== 'Parameter') violations.push(`ResourceType ${ResourceType}`)
      const parameter = parameters.get(ResourceId)
      return parameter === undefined ? refuse('InvalidResourceId', '') : accept({ TagList: parameter.tags })
    },

    AddTagsToResource({ ResourceType, ResourceId, Tags }: Resource & { Tags: Tag[] }): FakeAnswer {
      if (ResourceType !== 'Parameter') violations.push(`ResourceType ${ResourceType}`)
      const parameter = parameters.get(ResourceId)
      if (parameter === undefined) return refuse('InvalidResourceId', '')
      const others = parameter.tags.filter(({ Key }) => !Tags.some((tag) => tag.Key === Key))
      parameter.tags = [...others, ...Tags]
      return accept({})
    },
  }

  const fake: FakeSsm = {
    hosts: [`ssm.${region}.amazonaws.com`, `sts.${region}.amazonaws.com`, 'sts.amazonaws.com'],
    credential: { method: 'keys', ...awsKeys },
    wrongCredential: { method: 'keys', ...awsKeys, secretAccessKey: 'wrong' },
    target: { region, path: `${path}/` },
    options: {},
    answer: awsAnswers({
      format,
      policy: () => policy,
      resourcesOf: (input) =>
        namesIn(input).map((name) => ({
          arn: `arn:aws:ssm:${region}:${awsAccount}:parameter${name}`,
          tags: parameters.get(name)?.tags ?? [],
        })),
      service: 'ssm',
      model: 'ssm-2014-11-06',
      targetPrefix: 'AmazonSSM',
      region,
      operations,
      violations,
      externalId: parts.externalId ?? '',
      clock: parts.clock,
      isOpen: () => isOpen,
    }),
    violations,
    state: () => new Map(under(path).map((name) => [name.slice(path.length + 1), parameters.get(name)?.value ?? ''])),
    tamper(name, value) {
      const whole = `${path}/${name}`
      const known = parameters.get(whole)
      if (value === undefined) parameters.delete(whole)
      else parameters.set(whole, { type: 'String', tags: [], ...known, value, version: (known?.version ?? 0) + 1 })
    },
    setTarget: (value) => {
      isOpen = value
    },
    pageSize: 50,
    refusedNames: new Set(),
    // Once with the filter by tag, once without it.
    calls: { list: (count) => 2 * Math.ceil(count / 50), update: 1, look: 1 },
    parameter: (name) => parameters.get(name),
    enforce: (next) => {
      policy = next
    },
  }
  return fake
}
