/** Settings of backups: what is accepted, and what stops the start in one sentence. */
import { expect, test } from 'vitest'
import { expectRefusal, refusalOf } from '../../test/config-refusal.ts'
import { readConfig } from './config.ts'

const aws = { AWS_REGION: 'eu-central-1', AWS_ACCESS_KEY_ID: 'AKIAEXAMPLE', AWS_SECRET_ACCESS_KEY: 'hidden-secret' }
const read = (settings: Record<string, string>) => readConfig(settings).backup

test.each([
  ['/mnt/backup', { kind: 'folder', path: '/mnt/backup' }],
  ['/mnt/backup/../other/', { kind: 'folder', path: '/mnt/other' }],
  ['s3://my-bucket', { kind: 's3', bucket: 'my-bucket', prefix: '' }],
  ['s3://my.bucket/coffer/prod/', { kind: 's3', bucket: 'my.bucket', prefix: 'coffer/prod' }],
])('COFFER_BACKUP_TO accepts %s', (text, place) => {
  expect(read({ ...aws, COFFER_BACKUP_TO: text }).to).toEqual(place)
})

test.each([
  's3://',
  's3://b',
  's3://My-Bucket',
  's3://bucket/../other',
  's3://bucket/a b',
  's3://key:secret@bucket/x',
  's3://bucket/x?y=z',
  's3://bucket//x',
  'gs://bucket',
  'https://bucket.s3.amazonaws.com',
])('COFFER_BACKUP_TO refuses %s', (text) => {
  expectRefusal({ ...aws, COFFER_BACKUP_TO: text }, 'COFFER_BACKUP_TO')
})

test.each([
  ['AWS_ACCESS_KEY_ID', { ...aws, AWS_ACCESS_KEY_ID: '' }],
  ['AWS_SECRET_ACCESS_KEY', { ...aws, AWS_SECRET_ACCESS_KEY: '' }],
  ['AWS_REGION', { ...aws, AWS_REGION: '' }],
  ['AWS_REGION', { ...aws, AWS_REGION: 'Frankfurt!' }],
  ['AWS_ENDPOINT_URL_S3', { ...aws, AWS_ENDPOINT_URL_S3: 'minio.example.com' }],
  ['AWS_ENDPOINT_URL_S3', { ...aws, AWS_ENDPOINT_URL_S3: 'https://minio.example.com/path' }],
  ['AWS_ENDPOINT_URL_S3', { ...aws, AWS_ENDPOINT_URL_S3: 'https://user:pass@minio.example.com' }],
])('a bucket without a good %s stops the start', (name, settings) => {
  const message = refusalOf({ ...settings, COFFER_BACKUP_TO: 's3://bucket/x' })
  expect(message).toContain('COFFER_BACKUP_TO')
  expect(message).toContain(name)
  expect(message).not.toContain('hidden-secret')
})

test('with an endpoint of its own, a service needs no region', () => {
  const settings = { ...aws, AWS_REGION: '', AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9000' }
  expect(read({ ...settings, COFFER_BACKUP_TO: 's3://bucket/x' }).to).toMatchObject({ kind: 's3' })
})

test.each(['/srv/coffer', '/srv/coffer/', '/srv/coffer/backup', '/srv/other/../coffer/b'])(
  'a backup folder in the data folder is refused: %s',
  (folder) => {
    expectRefusal({ COFFER_DATA_DIR: '/srv/coffer', COFFER_BACKUP_TO: folder }, 'COFFER_BACKUP_TO')
    expect(read({ COFFER_DATA_DIR: '/srv/coffer', COFFER_BACKUP_TO: '/srv/coffer-backup' }).to).toBeDefined()
  },
)

test.each([
  ['5m', 300_000],
  ['12h', 43_200_000],
  ['7d', 604_800_000],
])('COFFER_BACKUP_EVERY accepts %s', (text, everyMs) =>
  expect(read({ COFFER_BACKUP_EVERY: text }).everyMs).toBe(everyMs),
)

test.each(['4m', '0h', '91d', '1w', '24', 'daily', '1.5h', '-1d', '1h30m'])(
  'COFFER_BACKUP_EVERY refuses %s',
  (text) => {
    expectRefusal({ COFFER_BACKUP_EVERY: text }, 'COFFER_BACKUP_EVERY')
  },
)

test.each([
  ['30 daily', { daily: 30, weekly: 0, monthly: 0 }],
  ['12 monthly, 7 daily', { daily: 7, weekly: 0, monthly: 12 }],
  ['1 daily,1 weekly,1 monthly', { daily: 1, weekly: 1, monthly: 1 }],
])('COFFER_BACKUP_KEEP accepts %s', (text, keep) => expect(read({ COFFER_BACKUP_KEEP: text }).keep).toEqual(keep))

test.each(['7', '7 days', '0 daily', '7 daily 4 weekly', '7 daily, 7 daily', '1001 daily', '-1 daily', '7 daily,'])(
  'COFFER_BACKUP_KEEP refuses %s',
  (text) => {
    expectRefusal({ COFFER_BACKUP_KEEP: text }, 'COFFER_BACKUP_KEEP')
  },
)
