import { serviceAccountEndpoints } from '@coffer/contract/service-account'
import { createServiceToken } from '../../../domain/credential/token-issue.ts'
import {
  createServiceAccount,
  listServiceAccounts,
  removeServiceAccount,
  updateServiceAccount,
} from '../../../domain/workspace/service-account.ts'
import type { Routes } from '../../route.ts'

export const serviceAccountRoutes: Routes = (serve) => {
  serve(serviceAccountEndpoints.listServiceAccounts, ({ ctx, params }) => listServiceAccounts(ctx, params))
  serve(serviceAccountEndpoints.createServiceAccount, ({ ctx, params, body }) =>
    createServiceAccount(ctx, params, body),
  )
  serve(serviceAccountEndpoints.updateServiceAccount, ({ ctx, params, body }) =>
    updateServiceAccount(ctx, params, body),
  )
  serve(serviceAccountEndpoints.removeServiceAccount, ({ ctx, params, query }) =>
    removeServiceAccount(ctx, params, query),
  )
  serve(serviceAccountEndpoints.createServiceToken, ({ ctx, params, body }) => createServiceToken(ctx, params, body))
}
