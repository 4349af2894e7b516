/** The people of the example. Each acts with a session of their own, which ends with the act. */
import { randomBytes } from 'node:crypto'
import { anonymous } from '../../domain/actor.ts'
import { login } from '../../domain/auth/login.ts'
import { logout } from '../../domain/auth/logout.ts'
import { type Context, noRequest, type Services } from '../../domain/context.ts'
import { newRun } from '../../domain/request-run.ts'

export type DemoPerson = { readonly email: string; readonly name: string; readonly password: string }

export function newPerson(name: string, domain: string): DemoPerson {
  const email = `${name.split(' ')[0]?.toLowerCase()}@${domain}`
  return { email, name, password: randomBytes(18).toString('base64url') }
}

const request = { id: 'command-line', ...noRequest }

export const asStranger = (services: Services): Context => ({ ...services, actor: anonymous, request, run: newRun() })

/** Signs in, and passes a function that makes a context for each call. */
export async function actAs<Result>(
  services: Services,
  { email, password }: DemoPerson,
  work: (ctx: () => Context) => Promise<Result>,
): Promise<Result> {
  const { value } = await login(asStranger(services), { email, password })
  const actor = await services.credentials.authenticate(value, '')
  const contextOf = () => ({ ...services, actor, request, run: newRun() })
  const result = await work(contextOf)
  await logout(contextOf())
  return result
}
