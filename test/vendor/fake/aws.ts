/**
 * The common part of AWS: STS, and signatures recomputed by the SDK's own signer. In the deep tier the SDK's models
 * check each request.
 */
import { createRequire } from 'node:module'
import { Sha256 } from '@aws-crypto/sha256-js'
import { SignatureV4 } from '@smithy/signature-v4'
import { isDeep } from '../../tier.ts'
import type { FakeAnswer, FakeRequest } from '../fake.ts'

process.env.AWS_SDK_JS_SUPPRESS_MAINTENANCE_MODE_MESSAGE = '1'
const require = createRequire(import.meta.url)

type Shape = object
type AwsCore = {
  Model: { Api: new (model: unknown) => { operations: Record<string, { input: Shape }> } }
  ParamValidator: new (rules: Record<string, boolean>) => { validate(shape: Shape, input: unknown): void }
}

export const awsAccount = '111122223333'
export const awsKeys = { accessKeyId: 'AKIARTX3GSDSQAAAAAAA', secretAccessKey: 'fake+secret/access+key' }
export const awsRole = `arn:aws:iam::${awsAccount}:role/coffer`
const session = { accessKeyId: 'ASIARTX3GSDSQBBBBBBB', secretAccessKey: 'session-secret', sessionToken: 'c2Vzc2lvbg==' }
const userArn = `arn:aws:iam::${awsAccount}:user/coffer`

type Operation = (input: never) => FakeAnswer

export const refuse = (type: string, message: string, status = 400): FakeAnswer => ({
  status,
  headers: { 'x-amzn-requestid': 'fake', 'content-type': 'application/x-amz-json-1.1' },
  body: { __type: type, message },
})
export const accept = (body: unknown): FakeAnswer => ({
  status: 200,
  headers: { 'content-type': 'application/x-amz-json-1.1' },
  body,
})

/**
 * The format of errors and absent fields. `plain`: as AWS responds today. `other`: as AWS may and emulators do, with
 * the error code in the header and 404 for not found. The official client reads both.
 */
export type AwsFormat = 'plain' | 'other'

/** `absent`: unset fields, which the `other` format sends as null. */
export const withAbsent = (format: AwsFormat, fields: object, absent: readonly string[]) =>
  format === 'plain' ? fields : { ...Object.fromEntries(absent.map((name) => [name, null])), ...fields }

function formatAnswer(format: AwsFormat, answer: FakeAnswer): FakeAnswer {
  const { __type: type, ...rest } = (answer.body ?? {}) as { __type?: string }
  if (format === 'plain' || type === undefined) return answer
  const isNotFound = /NotFound|InvalidResourceId/.test(type)
  const headers = { ...answer.headers, 'x-amzn-errortype': `${type}:http://internal.amazon.com/coral/` }
  return { status: isNotFound ? 404 : answer.status, headers, body: rest }
}

type Tag = { readonly Key: string; readonly Value: string }
type Conditions = Readonly<Record<string, string | readonly string[]>>
type Statement = {
  readonly Action: string | readonly string[]
  readonly Resource: string | readonly string[]
  readonly Condition?: {
    readonly StringEquals?: Conditions
    readonly StringEqualsIfExists?: Conditions
    readonly 'ForAllValues:StringEquals'?: Conditions
  }
}
export type AwsPolicy = { readonly Statement: readonly Statement[] }

/** What an action is about: `*` for actions without a resource. */
type AwsResource = { readonly arn: string; readonly tags: readonly Tag[] }
type Asked = { readonly action: string; readonly region: string; readonly tags: readonly Tag[] }

/** Evaluates what the policies of our forms use: actions, resources, and conditions on tags and on the region. */
function isPermitted({ Statement }: AwsPolicy, { action, region, tags }: Asked, resource: AwsResource) {
  function valuesOf(key: string): readonly string[] {
    if (key === 'aws:RequestedRegion') return [region]
    if (key === 'aws:TagKeys') return tags.map(({ Key }) => Key)
    const [, place, name] = /^aws:(RequestTag|ResourceTag)\/(.+)$/.exec(key) ?? []
    if (place === undefined) throw new Error(`this fake does not know the condition ${key}`)
    return (place === 'RequestTag' ? tags : resource.tags).filter(({ Key }) => Key === name).map(({ Value }) => Value)
  }
  const areAllIn = ([key, allowed]: [string, string | readonly string[]]) =>
    valuesOf(key).every((value) => [allowed].flat().includes(value))
  const isIn = (condition: [string, string | readonly string[]]) =>
    valuesOf(condition[0]).length > 0 && areAllIn(condition)
  const all = (conditions: Conditions = {}) => Object.entries(conditions)
  return Statement.some(
    ({ Action, Resource, Condition = {} }) =>
      [Action].flat().includes(action) &&
      [Resource].flat().some((pattern) => patternOf(pattern).test(resource.arn)) &&
      all(Condition.StringEquals).every(isIn) &&
      [...all(Condition.StringEqualsIfExists), ...all(Condition['ForAllValues:StringEquals'])].every(areAllIn),
  )
}

const patternOf = (arn: string) => new RegExp(`^${RegExp.escape(arn).replaceAll('\\*', '.*').replaceAll('\\?', '.')}$`)

type AwsParts = {
  readonly format: AwsFormat
  /** The enforced policy, if any. */
  readonly policy: () => AwsPolicy | undefined
  /** Each resource named by an input; a missing one has no tags. Empty if the input names none. */
  readonly resourcesOf: (input: unknown) => readonly AwsResource[]
  readonly service: string
  readonly model: string
  readonly region: string
  readonly targetPrefix: string
  readonly operations: Readonly<Record<string, Operation>>
  readonly violations: string[]
  /** The external id required to assume the role. */
  readonly externalId: string
  /** If set, signatures older than 15 minutes are rejected. */
  readonly clock?: (() => number) | undefined
  readonly isOpen: () => boolean
}

export function awsAnswers(parts: AwsParts): (request: FakeRequest) => Promise<FakeAnswer> {
  const { service, region, targetPrefix, operations, violations } = parts
  const judge = judgeOf(parts.model)
  const judgeSts = judgeOf('sts-2011-06-15')

  async function answerService(request: FakeRequest): Promise<FakeAnswer> {
    const problem = await signatureProblem(request, { service, region, clock: parts.clock })
    if (problem === 'unknown key') {
      return refuse('UnrecognizedClientException', 'The security token included in the request is invalid.')
    }
    if (problem !== undefined) return refuse('InvalidSignatureException', problem)
    if (!parts.isOpen()) {
      return refuse('OptInRequired', 'The AWS Access Key Id needs a subscription for the service', 403)
    }
    const name = request.headers['x-amz-target']?.replace(`${targetPrefix}.`, '') ?? ''
    const operation = Object.hasOwn(operations, name) ? operations[name] : undefined
    if (request.headers['content-type'] !== 'application/x-amz-json-1.1') violations.push(`${name}: content type`)
    if (operation === undefined) {
      violations.push(`${name}: not an operation that this fake has`)
      return refuse('UnknownOperationException', '')
    }
    const wrong = judge(name, request.json)
    if (wrong !== undefined) {
      violations.push(`${name}: ${wrong}`)
      return refuse('SerializationException', wrong)
    }
    const policy = parts.policy()
    const { Tags: tags = [] } = request.json as { Tags?: Tag[] }
    // The tags of a new entry need the right to tag, too.
    const needed = name === 'CreateSecret' && tags.length > 0 ? [name, 'TagResource'] : [name]
    if (name === 'PutParameter' && tags.length > 0) needed.push('AddTagsToResource')
    const named = parts.resourcesOf(request.json)
    const resources = named.length > 0 ? named : [{ arn: '*', tags: [] }]
    const isAllowed = (action: string) => (resource: AwsResource) =>
      policy === undefined || isPermitted(policy, { action: `${service}:${action}`, region, tags }, resource)
    const denied = needed.find((action) => !resources.every(isAllowed(action)))
    if (denied !== undefined) {
      return refuse('AccessDeniedException', `User: ${userArn} is not authorized to perform: ${service}:${denied}`)
    }
    return operation(request.json as never)
  }

  async function answerSts(request: FakeRequest): Promise<FakeAnswer> {
    const query = new URLSearchParams(request.text)
    const { Action = '', Version, ...input } = Object.fromEntries(query)
    const wrong = judgeSts(Action, input)
    if (wrong !== undefined || Version !== '2011-06-15') violations.push(`STS ${Action}: ${wrong ?? 'Version'}`)
    const place = request.host === 'sts.amazonaws.com' ? 'us-east-1' : region
    const problem = await signatureProblem(request, { service: 'sts', region: place, clock: parts.clock })
    if (problem === 'unknown key') return refuseBySts('InvalidClientTokenId', 'The security token is invalid.')
    if (problem !== undefined) return refuseBySts('SignatureDoesNotMatch', problem)
    if (request.headers.accept === 'application/json') return { status: 200, body: { [`${Action}Response`]: {} } }

    const caller = request.headers.authorization?.includes(session.accessKeyId)
      ? `arn:aws:sts::${awsAccount}:assumed-role/coffer/session`
      : userArn
    if (Action === 'GetCallerIdentity') {
      return answerXml(Action, `<Arn>${caller}</Arn><UserId>AIDA</UserId><Account>${awsAccount}</Account>`)
    }
    if (input.RoleArn !== awsRole || input.ExternalId !== parts.externalId) {
      const message = `User: ${userArn} is not authorized to perform: sts:AssumeRole on resource: ${input.RoleArn}`
      return refuseBySts('AccessDenied', message)
    }
    if (!/^[\w+=,.@-]{2,64}$/.test(input.RoleSessionName ?? '')) violations.push('AssumeRole: RoleSessionName')
    return answerXml(
      Action,
      `<AssumedRoleUser><Arn>${caller}</Arn><AssumedRoleId>AROA:s</AssumedRoleId></AssumedRoleUser><Credentials>
      <AccessKeyId>${session.accessKeyId}</AccessKeyId><SecretAccessKey>${session.secretAccessKey}</SecretAccessKey>
      <SessionToken>${session.sessionToken}</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>`,
    )
  }

  return async (request) => {
    if (request.method !== 'POST' || request.path !== '/') violations.push(`${request.method} ${request.path}`)
    if (request.headers['x-amz-target'] === undefined) return answerSts(request)
    return formatAnswer(parts.format, await answerService(request))
  }
}

const answerXml = (action: string, result: string): FakeAnswer => ({
  status: 200,
  headers: { 'content-type': 'text/xml' },
  body: `<${action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><${action}Result>${result}</${action}Result>
    <ResponseMetadata><RequestId>fake</RequestId></ResponseMetadata></${action}Response>`,
})

const refuseBySts = (code: string, message: string): FakeAnswer => ({
  status: 403,
  headers: { 'content-type': 'text/xml' },
  body: `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>${code}</Code>
    <Message>${message}</Message></Error><RequestId>fake</RequestId></ErrorResponse>`,
})

/** The first violation of the service's model. */
function judgeOf(model: string): (operation: string, input: unknown) => string | undefined {
  if (!isDeep) return () => undefined
  const sdk: AwsCore = require('aws-sdk/lib/core')
  const { operations } = new sdk.Model.Api(require(`aws-sdk/apis/${model}.min.json`))
  const validator = new sdk.ParamValidator({ min: true, max: true, pattern: true, enum: true })
  return (operation, input) => {
    const described = operations[operation.charAt(0).toLowerCase() + operation.slice(1)]
    if (described === undefined) return 'not in the model'
    try {
      validator.validate(described.input, input)
      return undefined
    } catch (error) {
      return String(error)
    }
  }
}

type Scope = { service: string; region: string; clock?: (() => number) | undefined }

async function signatureProblem(request: FakeRequest, { service, region, clock }: Scope): Promise<string | undefined> {
  const given = /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
    request.headers.authorization ?? '',
  )
  const [, keyId = '', scope = '', signedHeaders = ''] = given ?? []
  const credentials = [awsKeys, session].find(({ accessKeyId }) => accessKeyId === keyId)
  if (credentials === undefined) return 'unknown key'
  if ('sessionToken' in credentials && request.headers['x-amz-security-token'] !== session.sessionToken) {
    return 'unknown key'
  }

  const names = signedHeaders.split(';')
  const required = [
    'host',
    'x-amz-date',
    'content-type',
    ...Object.keys(request.headers).filter((name) => name.startsWith('x-amz-')),
  ]
  const missing = required.filter((name) => !names.includes(name))
  if (missing.length > 0) return `not signed: ${missing.join(', ')}`

  const date = request.headers['x-amz-date'] ?? ''
  const signingDate = new Date(date.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  if (scope !== `${date.slice(0, 8)}/${region}/${service}/aws4_request`) return `Credential should be scoped: ${scope}`
  if (clock !== undefined && Math.abs(clock() - signingDate.getTime()) > 15 * 60_000)
    return `Signature expired: ${date}`

  const signer = new SignatureV4({ credentials, region, service, sha256: Sha256, applyChecksum: false })
  const signed = await signer.sign(
    {
      method: request.method,
      protocol: 'https:',
      hostname: request.host,
      path: request.path,
      query: Object.fromEntries(request.query),
      headers: Object.fromEntries(names.map((name) => [name, request.headers[name] ?? ''])),
      body: request.text,
    },
    { signingDate, signableHeaders: new Set(names) },
  )
  if (signed.headers.authorization === request.headers.authorization) return undefined
  return 'The request signature we calculated does not match the signature you provided.'
}
