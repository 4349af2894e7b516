/** The example: a small shop with three projects. No value is real, and each says so. */
import { randomBytes } from 'node:crypto'

export const environments = ['development', 'staging', 'production'] as const
type DemoEnvironment = (typeof environments)[number]

/** Makes the value for an environment. */
type Value = (environment: DemoEnvironment) => string
type DemoSecret = {
  readonly key: string
  readonly value: Value
  readonly note?: string
  readonly dataType?: 'url' | 'number' | 'boolean' | 'json'
}

type DemoProject = {
  readonly slug: string
  readonly name: string
  readonly team: string
  readonly secrets: readonly DemoSecret[]
}

const key = (name: string, note?: string): DemoSecret => ({
  key: name,
  value: () => `demo-not-real-${randomBytes(9).toString('hex')}`,
  ...(note !== undefined && { note }),
})
const text = (name: string, value: Value, note?: string): DemoSecret => ({
  key: name,
  value,
  ...(note !== undefined && { note }),
})
const url = (name: string, value: Value): DemoSecret => ({ key: name, value, dataType: 'url' })
const number = (name: string, value: Value): DemoSecret => ({ key: name, value, dataType: 'number' })
const hostOf = (name: string) => (environment: DemoEnvironment) =>
  `${name}.${environment === 'production' ? '' : `${environment}.`}shop.example.test`
const at =
  (name: string, path = '') =>
  (environment: DemoEnvironment) =>
    `https://${hostOf(name)(environment)}${path}`
const logLevel: Value = (environment) => (environment === 'production' ? 'warn' : 'debug')

const platform: DemoProject = {
  slug: 'platform',
  name: 'Platform',
  team: 'Platform',
  secrets: [
    text('DATABASE_HOST', hostOf('db')),
    number('DATABASE_PORT', () => '5432'),
    text('DATABASE_NAME', () => 'shop'),
    text('DATABASE_USER', (environment) => `shop_${environment}`),
    key('DATABASE_PASSWORD', 'Rotated every quarter.'),
    text(
      'DATABASE_URL',
      () => `postgres://\${DATABASE_USER}:\${DATABASE_PASSWORD}@\${DATABASE_HOST}:\${DATABASE_PORT}/\${DATABASE_NAME}`,
      'Made of the values above: change those.',
    ),
    text('REDIS_HOST', hostOf('redis')),
    key('REDIS_PASSWORD'),
    text('REDIS_URL', () => `rediss://:\${REDIS_PASSWORD}@\${REDIS_HOST}:6379`),
    text('QUEUE_HOST', hostOf('queue')),
    key('QUEUE_PASSWORD'),
    text('QUEUE_URL', () => `amqps://shop:\${QUEUE_PASSWORD}@\${QUEUE_HOST}/shop`),
    url('STORAGE_ENDPOINT', at('storage')),
    key('STORAGE_ACCESS_KEY'),
    key('STORAGE_SECRET_KEY'),
    key('METRICS_TOKEN'),
    url('LOG_DRAIN_URL', at('logs', '/ingest')),
    key('BACKUP_PASSPHRASE', 'Also in the safe.'),
    key('PAGER_KEY'),
    text('REGION', () => 'eu-central'),
  ],
}

const storefront: DemoProject = {
  slug: 'storefront',
  name: 'Storefront',
  team: 'Storefront',
  secrets: [
    url('PUBLIC_URL', at('www')),
    url('API_URL', at('api', '/v1')),
    text('DATABASE_URL', (environment) => `\${platform.${environment}.DATABASE_URL}`),
    text('CACHE_URL', (environment) => `\${platform.${environment}.REDIS_URL}`),
    key('SESSION_SECRET', 'Signs the cookies of visitors.'),
    key('CSRF_SECRET'),
    url('CDN_URL', at('cdn')),
    text('IMAGE_BUCKET', (environment) => `shop-images-${environment}`),
    url('SEARCH_URL', at('search')),
    key('SEARCH_API_KEY'),
    key('ANALYTICS_KEY'),
    key('FEATURE_FLAGS_KEY'),
    { key: 'FEATURE_NEW_CART', value: () => 'false', dataType: 'boolean' },
    number('MAX_CART_ITEMS', () => '50'),
    text('LOG_LEVEL', logLevel),
    url('ERROR_REPORT_URL', at('errors', '/storefront')),
    text('MAIL_FROM', () => 'hello@shop.example.test'),
    key('MAIL_API_KEY'),
    key('CAPTCHA_SITE_KEY'),
    key('CAPTCHA_SECRET'),
    text('OAUTH_CLIENT_ID', (environment) => `storefront-${environment}`),
    key('OAUTH_CLIENT_SECRET'),
  ],
}

const checkout: DemoProject = {
  slug: 'checkout',
  name: 'Checkout',
  team: 'Payments',
  secrets: [
    url('PAYMENT_API_URL', at('payments', '/v2')),
    key('PAYMENT_API_KEY', 'Ask the payments team before you change it.'),
    key('PAYMENT_WEBHOOK_SECRET'),
    key('TAX_API_KEY'),
    url('FRAUD_API_URL', at('fraud')),
    key('FRAUD_API_KEY'),
    text('INVOICE_BUCKET', (environment) => `shop-invoices-${environment}`),
    key('INVOICE_SIGNING_KEY'),
    text('CURRENCY', () => 'EUR'),
    number('REFUND_LIMIT', () => '500'),
    number('RETRY_LIMIT', () => '3'),
    number('TIMEOUT_MS', () => '8000'),
    text('DATABASE_URL', (environment) => `\${platform.${environment}.DATABASE_URL}`),
    text('QUEUE_URL', (environment) => `\${platform.${environment}.QUEUE_URL}`),
    text('SESSION_SECRET', (environment) => `\${storefront.${environment}.SESSION_SECRET}`),
    url('LEDGER_URL', at('ledger')),
    key('LEDGER_TOKEN'),
    key('EXCHANGE_RATE_KEY'),
    text('LOG_LEVEL', logLevel),
    {
      key: 'RECEIPT_TEMPLATE',
      value: () => JSON.stringify({ title: 'Your receipt', footer: 'Example data' }),
      dataType: 'json',
    },
  ],
}

/** Those that others refer to come first. */
export const projects: readonly DemoProject[] = [platform, storefront, checkout]

export const teams = [...new Set(projects.map(({ team }) => team))]

/** A new value, as obviously fake as the first. */
export const freshValue = () => key('').value('production')
