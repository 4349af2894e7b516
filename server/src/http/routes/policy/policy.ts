import { policyEndpoints } from '@coffer/contract/policy'
import { readPolicy, updatePolicy } from '../../../domain/workspace/policy.ts'
import type { Routes } from '../../route.ts'

export const policyRoutes: Routes = (serve) => {
  serve(policyEndpoints.readPolicy, ({ ctx, params }) => readPolicy(ctx, params))
  serve(policyEndpoints.updatePolicy, ({ ctx, params, body }) => updatePolicy(ctx, params, body))
}
