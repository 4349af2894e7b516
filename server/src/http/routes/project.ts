import { projectEndpoints } from '@coffer/contract/project'
import {
  createProject,
  deleteProject,
  listProjects,
  readProject,
  updateProject,
} from '../../domain/workspace/project.ts'
import { type Routes, succeed } from '../route.ts'

export const projectRoutes: Routes = (serve) => {
  serve(projectEndpoints.listProjects, ({ ctx, params }) => listProjects(ctx, params))
  serve(projectEndpoints.createProject, ({ ctx, params, body }) => createProject(ctx, params, body))
  serve(projectEndpoints.readProject, ({ ctx, params }) => readProject(ctx, params))
  serve(projectEndpoints.updateProject, ({ ctx, params, body }) => updateProject(ctx, params, body))
  serve(projectEndpoints.deleteProject, ({ ctx, params }) => succeed(deleteProject(ctx, params)))
}
