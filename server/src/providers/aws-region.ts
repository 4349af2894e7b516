/**
 * AWS partitions, which are isolated from each other, and their regions. A region's name becomes part of a host name.
 */
import type { Option, Values } from './provider.ts'

export type Partition = {
  readonly label: string
  readonly domain: string
  /** Verifies a key before a region is chosen. */
  readonly sts: { readonly host: string; readonly region: string }
  readonly regions: Readonly<Record<string, string>>
}

const partitions = {
  aws: {
    label: 'AWS',
    domain: 'amazonaws.com',
    sts: { host: 'sts.amazonaws.com', region: 'us-east-1' },
    regions: {
      'us-east-1': 'US East (N. Virginia)',
      'us-east-2': 'US East (Ohio)',
      'us-west-1': 'US West (N. California)',
      'us-west-2': 'US West (Oregon)',
      'ca-central-1': 'Canada (Central)',
      'ca-west-1': 'Canada West (Calgary)',
      'mx-central-1': 'Mexico (Central)',
      'sa-east-1': 'South America (Sao Paulo)',
      'eu-central-1': 'Europe (Frankfurt)',
      'eu-central-2': 'Europe (Zurich)',
      'eu-north-1': 'Europe (Stockholm)',
      'eu-south-1': 'Europe (Milan)',
      'eu-south-2': 'Europe (Spain)',
      'eu-west-1': 'Europe (Ireland)',
      'eu-west-2': 'Europe (London)',
      'eu-west-3': 'Europe (Paris)',
      'af-south-1': 'Africa (Cape Town)',
      'il-central-1': 'Israel (Tel Aviv)',
      'me-central-1': 'Middle East (UAE)',
      'me-south-1': 'Middle East (Bahrain)',
      'ap-east-1': 'Asia Pacific (Hong Kong)',
      'ap-east-2': 'Asia Pacific (Taipei)',
      'ap-northeast-1': 'Asia Pacific (Tokyo)',
      'ap-northeast-2': 'Asia Pacific (Seoul)',
      'ap-northeast-3': 'Asia Pacific (Osaka)',
      'ap-south-1': 'Asia Pacific (Mumbai)',
      'ap-south-2': 'Asia Pacific (Hyderabad)',
      'ap-southeast-1': 'Asia Pacific (Singapore)',
      'ap-southeast-2': 'Asia Pacific (Sydney)',
      'ap-southeast-3': 'Asia Pacific (Jakarta)',
      'ap-southeast-4': 'Asia Pacific (Melbourne)',
      'ap-southeast-5': 'Asia Pacific (Malaysia)',
      'ap-southeast-6': 'Asia Pacific (New Zealand)',
      'ap-southeast-7': 'Asia Pacific (Thailand)',
    },
  },
  'aws-us-gov': {
    label: 'AWS GovCloud (US)',
    domain: 'amazonaws.com',
    sts: { host: 'sts.us-gov-west-1.amazonaws.com', region: 'us-gov-west-1' },
    regions: { 'us-gov-east-1': 'AWS GovCloud (US-East)', 'us-gov-west-1': 'AWS GovCloud (US-West)' },
  },
  'aws-cn': {
    label: 'AWS China',
    domain: 'amazonaws.com.cn',
    sts: { host: 'sts.cn-northwest-1.amazonaws.com.cn', region: 'cn-northwest-1' },
    regions: { 'cn-north-1': 'China (Beijing)', 'cn-northwest-1': 'China (Ningxia)' },
  },
  'aws-eusc': {
    label: 'AWS European Sovereign Cloud',
    domain: 'amazonaws.eu',
    sts: { host: 'sts.eusc-de-east-1.amazonaws.eu', region: 'eusc-de-east-1' },
    regions: { 'eusc-de-east-1': 'AWS European Sovereign Cloud (Germany)' },
  },
} as const satisfies Record<string, Partition>

type PartitionId = keyof typeof partitions

const isPartition = (id: string): id is PartitionId => Object.hasOwn(partitions, id)

/** The partition chosen in the credential's form. */
export const partitionIdOf = ({ partition = '' }: Values): PartitionId => (isPartition(partition) ? partition : 'aws')
export const partitionOf = (credential: Values): Partition => partitions[partitionIdOf(credential)]

export const partitionOptions: readonly Option[] = Object.entries(partitions).map(([value, { label }]) => ({
  label,
  value,
}))

export const regionOptions = ({ regions }: Partition): readonly Option[] =>
  Object.entries(regions).map(([value, place]) => ({ label: `${value}: ${place}`, value }))

export const isRegion = (region: string): boolean =>
  Object.values(partitions).some(({ regions }) => Object.hasOwn(regions, region))
