/** `demo`: fills a new workspace with a believable example, and shows how to sign in. */
import { createServices, openServices } from '../../app.ts'
import { type Config, readConfig } from '../../config.ts'
import type { Services } from '../../domain/context.ts'
import { dayMs } from '../../domain/time.ts'
import { installation } from '../../installation.ts'
import { createLog } from '../../log.ts'
import { explainFileError } from '../../open-store.ts'
import { StartError } from '../../start-error.ts'
import type { Print } from '../with-operator.ts'
import { type Clock, fillShop } from './fill.ts'
import { projects } from './shop.ts'

const firstSlug = 'shop'

type Environment = Readonly<Record<string, string | undefined>>

/** Without `into`, a store without accounts is needed, and made if there is none. */
export async function fillDemo(env: Environment, into: string | undefined, print: Print): Promise<number> {
  const config = readConfig(env)
  const slug = into ?? firstSlug
  if (!/^[a-z0-9-]{2,48}$/.test(slug)) {
    throw new StartError('--into: the slug of a workspace is 2 to 48 of a-z, 0-9 and the dash.')
  }
  return explainFileError(config, () =>
    into === undefined ? fillEmpty(config, slug, print) : fillBeside(config, slug, print),
  )
}

async function fillEmpty(config: Config, slug: string, print: Print): Promise<number> {
  const startedAt = Date.now()
  let daysAgo = 0
  const now = () => Date.now() - daysAgo * dayMs
  // The history of the example is made up, so nothing real may be in the same store.
  const clock: Clock = {
    goTo: (days) => {
      daysAgo = days
    },
  }
  const services = await createServices(config, createLog('warn'), now)
  return using(services, async (services) => {
    if ((await services.store.accounts.count()) > 0) {
      throw new StartError(
        `This store has accounts already: "${installation.command} demo --into <workspace>" puts the example into a new workspace beside yours.`,
      )
    }
    print(
      `Filling an empty store with an example, as if it had been used since ${new Date(startedAt - 12 * dayMs).toISOString().slice(0, 10)}.\n`,
    )
    return fill(services, clock, slug, print)
  })
}

/** In a store that is in use, everything has its real time. */
async function fillBeside(config: Config, slug: string, print: Print): Promise<number> {
  const services = await openServices(config, createLog('warn'), 'write')
  return using(services, async (services) => {
    if ((await services.store.workspaces.findIdForAnybody(slug)) !== undefined) {
      throw new StartError(
        `There is a workspace "${slug}" already: name a new one, because the example is mixed with nothing.`,
      )
    }
    return fill(services, { goTo: () => undefined }, slug, print)
  })
}

/** Invites must not be mailed: the people of the example do not exist. */
async function using(services: Services, work: (services: Services) => Promise<number>): Promise<number> {
  try {
    return await work({ ...services, mail: undefined })
  } finally {
    await services.mail?.close()
    await services.engine.close()
  }
}

async function fill(services: Services, clock: Clock, slug: string, print: Print): Promise<number> {
  const { email, password } = await fillShop(services, clock, slug)
  const count = projects.reduce((sum, { secrets }) => sum + secrets.length, 0)
  const lines = [
    `The workspace "${slug}" is ready: 5 people, ${projects.length} projects, ${count} secrets. No value in it is real.`,
    `Start the service if it does not run (${installation.start}), and sign in:`,
    `  ${services.config.publicUrl}/${slug}`,
    `  ${email}`,
    `  ${password}`,
    'The password is shown only now. Delete the workspace in its settings when you have seen enough.',
  ]
  return print(`${lines.join('\n')}\n`)
}
