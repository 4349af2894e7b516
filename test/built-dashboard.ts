/** The pages that the service under test serves, built from the sources as they are. */
import { buildDashboard, isFresh } from '../dashboard/build.ts'

export async function setup(): Promise<void> {
  if (!isFresh()) await buildDashboard()
}
