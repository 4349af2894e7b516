/** Signing in to AWS: with the access keys of a user, or with a role that these keys assume for this one sync. */
import type { AwsCredentials } from '../aws-signature.ts'
import { tagIn } from '../xml-text.ts'
import { accountOf, isByRole } from './aws-form.ts'
import { partitionIdOf, partitionOf } from './aws-region.ts'
import { type AwsAnswer, type AwsConnection, sendToAws, toAwsConnection } from './aws-request.ts'
import { isFault, VendorFault } from './fault.ts'
import type { Connection, Values } from './provider.ts'

/** One service in one region; signs in at most once. */
export type AwsService = {
  call(operation: string, input: unknown, expected?: readonly string[]): Promise<AwsAnswer>
}

export function awsService(connection: Connection, service: string, targetPrefix: string): AwsService {
  const { credential, target } = connection
  const { domain, regions } = partitionOf(credential)
  const region = target.region ?? ''
  const aws = toAwsConnection(connection)
  let keys: Promise<AwsCredentials> | undefined

  return {
    async call(operation, input, expected = []) {
      if (!Object.hasOwn(regions, region)) {
        throw new VendorFault('gone', 'The region does not belong to the partition of the access keys.', {
          field: 'region',
        })
      }
      keys ??= signIn(connection, aws, { host: `sts.${region}.${domain}`, region })
      return sendToAws(aws, await keys, {
        host: `${service}.${region}.${domain}`,
        service,
        region,
        headers: { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': `${targetPrefix}.${operation}` },
        body: JSON.stringify(input),
        expected,
      })
    },
  }
}

export async function verifyAws(connection: Connection): Promise<string> {
  const { sts } = partitionOf(connection.credential)
  const aws = toAwsConnection(connection)
  const xml = await askSts(aws, await signIn(connection, aws, sts), sts, { Action: 'GetCallerIdentity' })
  return requireTag(xml, 'Arn')
}

type Sts = { readonly host: string; readonly region: string }

async function signIn({ credential, syncId }: Connection, aws: AwsConnection, sts: Sts): Promise<AwsCredentials> {
  const own = { accessKeyId: credential.accessKeyId ?? '', secretAccessKey: credential.secretAccessKey ?? '' }
  if (!isByRole(credential)) return own
  try {
    const xml = await askSts(aws, own, sts, {
      Action: 'AssumeRole',
      RoleArn: credential.roleArn ?? '',
      RoleSessionName: `coffer-${syncId}`,
      ExternalId: syncId,
    })
    return {
      accessKeyId: requireTag(xml, 'AccessKeyId'),
      secretAccessKey: requireTag(xml, 'SecretAccessKey'),
      sessionToken: requireTag(xml, 'SessionToken'),
    }
  } catch (error) {
    if (!isFault(error, 'scope') && !isFault(error, 'invalid')) throw error
    throw new VendorFault(error.kind, 'AWS does not allow these access keys to assume the role.', {
      ...error.facts,
      field: 'roleArn',
    })
  }
}

async function askSts(aws: AwsConnection, keys: AwsCredentials, sts: Sts, query: Record<string, string>) {
  const { response } = await sendToAws(aws, keys, {
    ...sts,
    service: 'sts',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ ...query, Version: '2011-06-15' }).toString(),
  })
  return response.text
}

function requireTag(xml: string, tag: string): string {
  const text = tagIn(xml, tag)
  if (text === undefined || text === '') throw new VendorFault('protocol', `The response of AWS lacks ${tag}.`)
  return text
}

/** Equal for two syncs with the same account and region. */
export function awsPlace({ region = '' }: Values, credential: Values): string {
  return `${partitionIdOf(credential)}/${accountOf(credential) ?? credential.accessKeyId ?? ''}/${region}`
}
