import { defineCommand } from '../command.ts'
import type { Context } from '../context.ts'
import { checkAccess } from '../doctor/access.ts'
import { checkCache } from '../doctor/cache.ts'
import { type Check, fail, ok, warn } from '../doctor/check.ts'
import { checkKeychain, checkLoginFile, checkNode } from '../doctor/machine.ts'
import { checkService } from '../doctor/service.ts'
import { CliError, exitCodes } from '../error.ts'
import { findUrl, hintFor, readSettings } from '../place/place.ts'

export const doctor = defineCommand({
  usage: '',
  args: [0, 0],
  flags: {},
  details: `
Checks everything that commands need in this folder, and says what to do about each
problem. Ends with 1 if a check fails; a warning alone is no failure.`,
  async run(ctx) {
    const checks = [
      checkNode(),
      checkLoginFile(ctx),
      await checkKeychain(),
      ...(await checkFolder(ctx)),
      await checkCache(ctx),
    ]
    const isWell = checks.every(({ state }) => state !== 'fail')
    ctx.out.show({ ok: isWell, checks }, () => ({
      columns: ['state', 'check', 'result', 'try'],
      rows: checks.map(({ state, check, message, try: hint = '' }) => [state, check, message, hint]),
    }))
    return isWell ? exitCodes.ok : exitCodes.failure
  },
})

async function checkFolder(ctx: Context): Promise<Check[]> {
  try {
    const settings = readSettings(ctx)
    const found = ok('.coffer.json', settings.file?.path ?? 'none')
    const url = findUrl(ctx)
    if (url === undefined)
      return [found, warn('service', 'The address of the service is not known.', hintFor(settings, 'url'))]
    const service = await checkService(ctx, url)
    const isThere = service[0]?.state === 'ok'
    return [found, ...service, ...(isThere ? await checkAccess(ctx, url) : [])]
  } catch (error) {
    if (!(error instanceof CliError)) throw error
    return [fail('.coffer.json', error.message, error.hint)]
  }
}
