/** How this program was called: as `coffer`, or by `npx coffer` in a checkout. */
import { delimiter } from 'node:path'
import type { Context } from './context.ts'
import type { Environment } from './environment.ts'

const isNpx = ({ npm_lifecycle_event }: Environment): boolean => npm_lifecycle_event === 'npx'

/** Variables of npm beside `npm_…`, which it sets in any case. */
const ofNpm = ['INIT_CWD', 'NODE', 'COLOR']

/**
 * The environment of the person, without what npx has added for this program: folders of the checkout in PATH, with a Node
 * of their own, and variables. npm keeps no note of variables that it has replaced.
 */
export function callerEnvironment(env: Environment): Environment {
  if (!isNpx(env)) return env
  const isOfNpm = (name: string) =>
    name.startsWith('npm_') || ofNpm.includes(name) || (name === 'EDITOR' && env.EDITOR === (env.VISUAL || 'vi'))
  const kept = Object.entries(env).filter(([name]) => !isOfNpm(name))
  return Object.fromEntries(kept.map(([name, value]) => [name, /^path$/i.test(name) ? callerPath(value) : value]))
}

/** npm puts its folders in front, and this one last. */
function callerPath(path = ''): string {
  const folders = path.split(delimiter)
  const last = folders.findIndex((folder) => /[\\/]run-script[\\/]lib[\\/]node-gyp-bin$/.test(folder))
  return folders.slice(last + 1).join(delimiter)
}

/** The words that call this program again for the same folder, such as `npx coffer -C ../my-app`. */
export function commandHere({ env, flags: { cwd } }: Context): string {
  const program = isNpx(env) ? 'npx coffer' : 'coffer'
  if (cwd === undefined) return program
  return `${program} -C ${/^[\w@%+=:,./-]+$/.test(cwd) ? cwd : `'${cwd.replaceAll("'", "'\\''")}'`}`
}
