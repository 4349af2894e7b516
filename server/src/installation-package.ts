/** `installation.ts` of the package, as `server/build.ts` lays it out: all code is in one folder of it. */
import { join } from 'node:path'
import type { Installation } from './installation.ts'

const folder = join(import.meta.dirname, '..')

export const installation: Installation = {
  start: 'coffer-server',
  program: join(folder, 'coffer-server.js'),
  command: 'coffer-server',
  client: 'coffer',
  manifest: join(folder, 'package.json'),
  dashboardFolder: join(folder, 'dashboard'),
  findSwaggerUiFile: (name) => join(folder, 'swagger-ui', name),
}
