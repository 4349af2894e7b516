/** A small company with two teams, as the pictures of the dashboard show it. No value is real. */
import { type Api, createApi } from '@coffer/sdk'
import { setupCode } from '../../test/setup-code.ts'

export type Example = { readonly session: string; readonly shareToken: string; readonly inviteToken: string }

const password = 'a long enough password'
const ws = 'acme'
const prj = 'shop'

export async function createExample(url: string): Promise<Example> {
  const workspace = { name: 'Acme', slug: ws }
  const account = { email: 'you@example.test', name: 'Robin Lee', password, workspace, setupCode }
  const { accessToken: session } = await createApi({ url, credential: null }).auth.register(account)
  const api = createApi({ url, credential: session })
  const [everyone] = await api.team.list({ ws })
  if (everyone) await api.team.update({ ws, id: everyone.id }, { name: 'Storefront team' })
  const platform = await api.team.create({ ws }, { name: 'Platform team' })
  for (const slug of [prj, 'checkout', 'search']) {
    await api.project.create({ ws }, { name: slug, slug, teamId: everyone?.id ?? '' })
  }
  for (const slug of ['billing', 'mailer']) {
    await api.project.create({ ws }, { name: slug, slug, teamId: platform.id })
  }
  await writeSecrets(api)
  await createTokens(api)
  const { inviteToken } = await api.member.createInvite(
    { ws },
    { email: 'dev@example.test', role: 'developer', scope: { all: true } },
  )
  const share = { content: 'The door code is 4711.', expiresIn: 86_400, label: 'for the plumber' }
  const { token: shareToken } = await api.share.create({ ws, prj }, share)
  return { session, shareToken, inviteToken }
}

const names = [
  'API_BASE_URL',
  'CACHE_URL',
  'DB_HOST',
  'FEATURE_SEARCH',
  'JWT_SIGNING_KEY',
  'LOG_LEVEL',
  'MAILER_FROM',
  'OPENAI_API_KEY',
  'QUEUE_URL',
  'S3_BUCKET',
  'SENTRY_DSN',
  'SESSION_SECRET',
  'SMTP_PASSWORD',
  'STRIPE_SECRET_KEY',
  'STRIPE_WEBHOOK_SECRET',
]
/** Secrets that an environment lacks, as it happens. */
const missing: Readonly<Record<string, readonly string[]>> = {
  development: ['STRIPE_WEBHOOK_SECRET'],
  staging: ['OPENAI_API_KEY'],
  production: ['OPENAI_API_KEY', 'FEATURE_SEARCH'],
}
const sameEverywhere = ['LOG_LEVEL', 'MAILER_FROM', 'S3_BUCKET']

async function writeSecrets(api: Api): Promise<void> {
  const { environments } = await api.project.read({ ws, prj })
  for (const { id, name: environment } of environments) {
    const secrets = names
      .filter((key) => !missing[environment]?.includes(key))
      .map((key) => ({ key, value: sameEverywhere.includes(key) ? 'info' : `${key.toLowerCase()}-of-${environment}` }))
    secrets.push({ key: 'DATABASE_URL', value: `postgres://app@\${DB_HOST}/shop_${environment}` })
    const lines = Array.from({ length: 40 }, (_, line) => `line ${line} of no certificate`)
    secrets.push({ key: 'TLS_CERTIFICATE', value: ['-----BEGIN CERTIFICATE-----', ...lines, ''].join('\n') })
    await api.secret.create({ ws, prj }, { environments: [id], secrets, message: 'import .env' })
  }
  const staging = environments.find(({ name }) => name === 'staging')?.id ?? ''
  const empty = { environmentId: staging, value: '', message: 'switch Sentry off in staging' }
  await api.secret.writeValue({ ws, prj, key: 'SENTRY_DSN' }, empty)
  const rotated = { environmentId: staging, value: 'a newer key', message: 'rotate after the audit' }
  await api.secret.writeValue({ ws, prj, key: 'STRIPE_SECRET_KEY' }, rotated)
  const nextReminderDate = new Date(Date.now() + 16 * 86_400_000).toISOString()
  const reminder = { environmentId: staging, type: 'one_time', nextReminderDate } as const
  await api.secret.putReminder({ ws, prj, key: 'JWT_SIGNING_KEY' }, reminder)
}

async function createTokens(api: Api): Promise<void> {
  const { environments } = await api.project.read({ ws, prj })
  const production = environments.find(({ name }) => name === 'production')?.id ?? ''
  const scope = { environments: [production] }
  await api.token.create({ ws }, { name: 'deploy pipeline', permission: 'read', scope, expiresIn: '30d' })
  await api.token.create({ ws }, { name: 'nightly backup', permission: 'read', scope: { all: true }, expiresIn: '24h' })
}
