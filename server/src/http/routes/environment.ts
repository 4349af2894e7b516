import { environmentEndpoints } from '@coffer/contract/environment'
import {
  createEnvironment,
  deleteEnvironment,
  listEnvironments,
  updateEnvironment,
} from '../../domain/workspace/environment.ts'
import { type Routes, succeed } from '../route.ts'

export const environmentRoutes: Routes = (serve) => {
  serve(environmentEndpoints.listEnvironments, ({ ctx, params }) => listEnvironments(ctx, params))
  serve(environmentEndpoints.createEnvironment, ({ ctx, params, body }) => createEnvironment(ctx, params, body))
  serve(environmentEndpoints.updateEnvironment, ({ ctx, params, body }) =>
    succeed(updateEnvironment(ctx, params, body)),
  )
  serve(environmentEndpoints.deleteEnvironment, ({ ctx, params }) => succeed(deleteEnvironment(ctx, params)))
}
