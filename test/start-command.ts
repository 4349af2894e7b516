/** How `npm start` runs the service, for tests and measurements of memory: options of Node and settings of its allocator. */
import limits from '../server/limits.json' with { type: 'json' }

export const startEnvironment: Readonly<Record<string, string>> = limits.environment
export const nodeOptions: readonly string[] = limits.nodeOptions
/** From the folder of the repository. */
export const startArguments: readonly string[] = [...limits.nodeOptions, 'server/start.js']
