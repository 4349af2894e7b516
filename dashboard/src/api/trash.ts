/** Deleted secrets, which are kept for 30 days. */
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'

export const trashQuery = (ws: string, prj: string) =>
  queryOptions({ queryKey: ['trash', ws, prj], queryFn: () => api.secret.listTrash({ ws, prj }) })

export const restoreSecret = (ws: string, prj: string, id: string) => api.secret.restore({ ws, prj, key: id })

/** Destroys every version. */
export const purgeSecret = (ws: string, prj: string, id: string) =>
  api.secret.delete({ ws, prj, key: id }, { purge: true })
