/** Fills the example: what its people did, day by day. Everything goes through the functions that the API calls. */
import type { Grant } from '@coffer/contract/field'
import type { Project } from '@coffer/contract/project'
import { register } from '../../domain/auth/register.ts'
import type { Context, Services } from '../../domain/context.ts'
import { createServiceToken, createToken } from '../../domain/credential/token-issue.ts'
import { promoteSecrets } from '../../domain/secret/history/history.ts'
import { listSecrets } from '../../domain/secret/read/answer.ts'
import { putReminder } from '../../domain/secret/reminder.ts'
import { createSecrets, deleteSecret } from '../../domain/secret/write/change.ts'
import { writeSecretValue } from '../../domain/secret/write/value.ts'
import { createShare } from '../../domain/share/share.ts'
import { dayMs, iso } from '../../domain/time.ts'
import { createInvite } from '../../domain/workspace/invite.ts'
import { createProject } from '../../domain/workspace/project.ts'
import { createServiceAccount } from '../../domain/workspace/service-account.ts'
import { createTeam } from '../../domain/workspace/team.ts'
import { actAs, asStranger, type DemoPerson, newPerson } from './person.ts'
import { environments, freshValue, projects, teams } from './shop.ts'

type Act = (days: number, person: DemoPerson, work: (ctx: () => Context) => Promise<void>) => Promise<void>
type NewGrant = Pick<Grant, 'role'> & { readonly scope: Partial<Grant['scope']> }

export type Clock = { goTo(daysAgo: number): void }

/** Returns the owner, who may sign in. */
export async function fillShop(services: Services, clock: Clock, ws: string): Promise<DemoPerson> {
  const person = (name: string) => newPerson(name, `${ws}.example.test`)
  const [ada, ben, chloe, dev, emi] = ['Ada Park', 'Ben Osei', 'Chloe Novak', 'Dev Patel', 'Emi Sato'].map(person)
  if (!ada || !ben || !chloe || !dev || !emi) throw new Error('the people of the example are missing')
  const act: Act = async (days, person, work) => {
    clock.goTo(days)
    await actAs(services, person, work)
  }
  clock.goTo(12)
  await registerOwner(services, ada, ws)
  const made = new Map<string, Project>()
  await act(12, ada, async (ctx) => {
    const teamIds = new Map<string, string>()
    for (const name of teams) teamIds.set(name, (await createTeam(ctx(), { ws }, { name })).id)
    for (const { slug, name, team } of projects) {
      made.set(slug, await createProject(ctx(), { ws }, { slug, name, teamId: teamIds.get(team) ?? '' }))
    }
  })
  const project = (slug: string) => made.get(slug)?.id ?? ''
  const environment = (slug: string, name: string) =>
    made.get(slug)?.environments.find((candidate) => candidate.name === name)?.id ?? ''
  await act(11, ada, async (ctx) => {
    const join = (who: DemoPerson, ...grants: NewGrant[]) => invite(services, ctx(), ws, who, grants)
    await join(ben, { role: 'admin', scope: { all: true } })
    await join(chloe, { role: 'developer', scope: { projects: [project('storefront')] } })
    await join(
      dev,
      {
        role: 'developer',
        scope: { environments: ['development', 'staging'].map((name) => environment('checkout', name)) },
      },
      { role: 'member', scope: { projects: [project('storefront')] } },
    )
    await join(emi, { role: 'member', scope: { all: true } })
    const open = {
      email: `finn@${ws}.example.test`,
      role: 'member' as const,
      scope: { projects: [project('checkout')] },
    }
    await createInvite(ctx(), { ws }, open)
  })
  await act(10, ben, (ctx) => writeProjects(ctx, ws))
  await act(8, chloe, async (ctx) => {
    await change(ctx(), ws, 'storefront', 'FEATURE_NEW_CART', 'development', 'true', 'Try the new cart')
    await change(ctx(), ws, 'storefront', 'MAX_CART_ITEMS', 'development', '80', 'Larger carts')
  })
  await act(7, dev, async (ctx) => {
    await change(ctx(), ws, 'checkout', 'TIMEOUT_MS', 'staging', '12000', 'The fraud check is slow')
    await change(ctx(), ws, 'checkout', 'RETRY_LIMIT', 'staging', '5')
  })
  await act(6, chloe, (ctx) => promote(ctx(), ws, 'development', environment('storefront', 'staging')))
  await act(5, ben, (ctx) => useMachines(ctx, ws, project('storefront'), environment('storefront', 'production')))
  await act(3, ben, async (ctx) => {
    for (const name of environments) {
      await change(ctx(), ws, 'platform', 'DATABASE_PASSWORD', name, freshValue(), 'Quarterly rotation')
    }
  })
  await act(2, chloe, async (ctx) => {
    await promote(ctx(), ws, 'staging', environment('storefront', 'production'))
    await deleteSecret(ctx(), { ws, prj: 'storefront', key: 'CAPTCHA_SITE_KEY' }, {}, undefined)
  })
  await act(1, emi, async (ctx) => {
    await listSecrets(ctx(), { ws, prj: 'storefront' }, { environmentId: 'production' }, undefined)
  })
  await act(0, ada, (ctx) => remindAndShare(ctx, ws))
  return ada
}

/** Admitted like anybody on a service with open sign-up: the operator is on the machine itself. */
async function registerOwner(services: Services, { email, name, password }: DemoPerson, slug: string): Promise<void> {
  const open: Services = { ...services, config: { ...services.config, signup: 'open' } }
  const workspace = { name: 'Example Shop', slug }
  await register(asStranger(open), { email, name, password, workspace, setupCode: services.setupCode.value })
}

async function invite(
  services: Services,
  ctx: Context,
  ws: string,
  who: DemoPerson,
  grants: NewGrant[],
): Promise<void> {
  const { email, name, password } = who
  const { inviteToken } = await createInvite(ctx, { ws }, { email, grants })
  await register(asStranger(services), { email, name, password, inviteToken })
}

async function writeProjects(ctx: () => Context, ws: string): Promise<void> {
  for (const { slug, secrets } of projects) {
    for (const name of environments) {
      const list = secrets.map(({ value, ...rest }) => ({ ...rest, value: value(name) }))
      const body = { environments: [name], secrets: list, mode: 'upsert' as const, message: 'Moved from .env files' }
      await createSecrets(ctx(), { ws, prj: slug }, body)
    }
  }
}

async function change(
  ctx: Context,
  ws: string,
  prj: string,
  key: string,
  environmentId: string,
  value: string,
  message?: string,
) {
  await writeSecretValue(
    ctx,
    { ws, prj, key },
    { environmentId, value, ...(message !== undefined && { message }) },
    undefined,
  )
}

async function promote(ctx: Context, ws: string, from: string, environmentId: string): Promise<void> {
  const keys = ['FEATURE_NEW_CART', 'MAX_CART_ITEMS']
  await promoteSecrets(
    ctx,
    { ws, prj: 'storefront', environmentId },
    { from, keys, mode: 'upsert', message: 'New cart' },
  )
}

/** The values of the tokens are shown to nobody. */
async function useMachines(ctx: () => Context, ws: string, projectId: string, environmentId: string): Promise<void> {
  const grants: NewGrant[] = [{ role: 'member', scope: { projects: [projectId] } }]
  const { id } = await createServiceAccount(ctx(), { ws }, { name: 'storefront-deploy', grants })
  const scope = { environments: [environmentId] }
  await createServiceToken(ctx(), { ws, id }, { name: 'deploy', permission: 'read', scope, expiresIn: '6m' })
  const own = {
    name: 'laptop',
    permission: 'read' as const,
    scope: { projects: [projectId] },
    expiresIn: '30d' as const,
  }
  await createToken(ctx(), { ws }, own)
}

async function remindAndShare(ctx: () => Context, ws: string): Promise<void> {
  const nextReminderDate = iso(ctx().now() + 30 * dayMs)
  const reminder = { environmentId: 'production', type: 'recurring', everyDays: 90, nextReminderDate } as const
  await putReminder(ctx(), { ws, prj: 'platform', key: 'DATABASE_PASSWORD' }, reminder)
  const share = {
    content: `The door code of the warehouse: ${freshValue()}`,
    label: 'Door code',
    expiresIn: 7 * 86_400,
  }
  await createShare(ctx(), { ws, prj: 'platform' }, { ...share, maxViews: 3 })
}
