/**
 * Preloaded into the service: makes it a version later than this one, with as many more migrations as NEXT_VERSIONS says.
 * They change the busiest tables, in every way that a migration may.
 */
import { steps } from '../../server/src/store/migrate.ts'
import { nextSteps } from './next-migration.ts'

const versions = Number(process.env.NEXT_VERSIONS)
for (let number = 1; number <= versions; number++) Reflect.apply(Array.prototype.push, steps, nextSteps(number))
