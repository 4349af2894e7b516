/** Files of secrets: checked by the service without a change, then imported. */
import { ApiError, type RevisionResults, type SecretImport } from '@coffer/sdk'
import { api } from './client.ts'

type ImportRequest = Omit<SecretImport, 'environmentId' | 'dryRun' | 'message'>

type Place = { readonly ws: string; readonly prj: string; readonly environmentId: string }

export const planImport = ({ environmentId, ...path }: Place, file: ImportRequest): Promise<RevisionResults> =>
  api.secret.import(path, { ...file, environmentId, dryRun: true })

export const importFile = (
  { environmentId, ...path }: Place,
  file: ImportRequest,
  message: string,
): Promise<RevisionResults> => api.secret.import(path, { ...file, environmentId, ...(message !== '' && { message }) })

export type LineProblem = { readonly line: number; readonly problem: string }

/** The line of the file that the service could not read, if that is the reason of the refusal. */
export function lineProblemOf(error: unknown): LineProblem | undefined {
  if (!(error instanceof ApiError) || error.status !== 400) return undefined
  const match = /^content: line (\d+): (.+)$/s.exec(error.message)
  return match ? { line: Number(match[1]), problem: match[2] ?? '' } : undefined
}
