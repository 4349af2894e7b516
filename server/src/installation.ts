/**
 * How this installation is started, and where the files beside its code are. This one is a checkout; in the package,
 * `installation-package.ts` takes its place.
 */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export type Installation = {
  /** Starts the service. */
  readonly start: string
  /** The file that Node runs for every command. */
  readonly program: string
  /** Begins every operator's command. */
  readonly command: string
  /** Begins every command of the client. */
  readonly client: string
  /** The package.json of the server. */
  readonly manifest: string
  /** The pages as `dashboard/build.ts` makes them. */
  readonly dashboardFolder: string
  findSwaggerUiFile(name: string): string
}

export const installation: Installation = {
  start: 'npm start',
  program: join(import.meta.dirname, '../start.js'),
  command: 'npm run coffer-server --',
  client: 'npx coffer',
  manifest: join(import.meta.dirname, '../package.json'),
  dashboardFolder: join(import.meta.dirname, '../../dashboard/dist'),
  findSwaggerUiFile: (name) => fileURLToPath(import.meta.resolve(`swagger-ui-dist/${name}`)),
}
