/** Root rotations of a running service. */
import { asOperator } from '../server/src/domain/context.ts'
import { rotateRoot } from '../server/src/domain/workspace/key.ts'
import { countRootUses } from '../server/src/store/key/rotation.ts'
import type { TestService } from './harness.ts'
import { until } from './wait.ts'

export const rotate = ({ app }: TestService) => rotateRoot(asOperator(app.services), () => undefined, 0)

/** Waits until all hashes except this many are under the active root. */
export const awaitRehashed = ({ app }: TestService, but: number) =>
  until(
    async () => {
      const roots = await countRootUses(app.services.engine)
      return roots.every((root) => root.isActive || root.hashes <= but) || undefined
    },
    120_000,
    'the hashes are under the active root',
  )
