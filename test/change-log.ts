/** For tests of what a node keeps in memory. */
import type { TestService } from './harness.ts'
import { until } from './wait.ts'

/** Waits until the node has processed everything that the change log contains now, including its own changes. */
export async function hear(node: TestService): Promise<void> {
  const { changes } = node.app.services.store
  const listAfter = changes.listAfter.bind(changes)
  let reads = 0
  changes.listAfter = async (sequence) => {
    reads++
    return listAfter(sequence)
  }
  // The first read may have started earlier; the second starts when it has ended.
  await until(() => reads > 1 || undefined, 120_000, 'the log is read')
  changes.listAfter = listAfter
}
