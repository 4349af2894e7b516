import { workspaceEndpoints } from '@coffer/contract/workspace'
import {
  createWorkspace,
  deleteWorkspace,
  handOverWorkspace,
  listWorkspaces,
  readWorkspace,
  updateWorkspace,
} from '../../domain/workspace/workspace.ts'
import { type Routes, succeed } from '../route.ts'

export const workspaceRoutes: Routes = (serve) => {
  serve(workspaceEndpoints.listWorkspaces, ({ ctx }) => listWorkspaces(ctx))
  serve(workspaceEndpoints.createWorkspace, ({ ctx, body }) => createWorkspace(ctx, body))
  serve(workspaceEndpoints.readWorkspace, ({ ctx, params }) => readWorkspace(ctx, params))
  serve(workspaceEndpoints.updateWorkspace, ({ ctx, params, body }) => updateWorkspace(ctx, params, body))
  serve(workspaceEndpoints.deleteWorkspace, ({ ctx, params, body }) => succeed(deleteWorkspace(ctx, params, body)))
  serve(workspaceEndpoints.handOverWorkspace, ({ ctx, params, body }) => succeed(handOverWorkspace(ctx, params, body)))
}
