/** Several writes in one step. */
import { ApiError, type BatchResults, type SecretBatch } from '@coffer/sdk'
import type { Project } from './project.ts'

export async function writeBatch({ api, path }: Project, batch: SecretBatch): Promise<BatchResults> {
  try {
    return await api.secret.writeBatch(path, batch)
  } catch (error) {
    throw nameOperation(error, batch.operations)
  }
}

/** The service counts operations, such as `operations.0.value: …`; a person knows the key. */
function nameOperation(error: unknown, operations: SecretBatch['operations']): unknown {
  if (!(error instanceof ApiError)) return error
  const [, index, field, problem] = /^operations\.(\d+)\.(value|note): (.*)$/s.exec(error.message) ?? []
  const key = operations[Number(index)]?.key
  if (key === undefined) return error
  return new ApiError(`The ${field} of ${key} ${problem}`, error.status, error.requestId)
}
