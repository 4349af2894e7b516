import { teamEndpoints } from '@coffer/contract/team'
import { createTeam, deleteTeam, listTeams, updateTeam } from '../../domain/workspace/team.ts'
import { type Routes, succeed } from '../route.ts'

export const teamRoutes: Routes = (serve) => {
  serve(teamEndpoints.listTeams, ({ ctx, params }) => listTeams(ctx, params))
  serve(teamEndpoints.createTeam, ({ ctx, params, body }) => createTeam(ctx, params, body))
  serve(teamEndpoints.updateTeam, ({ ctx, params, body }) => updateTeam(ctx, params, body))
  serve(teamEndpoints.deleteTeam, ({ ctx, params }) => succeed(deleteTeam(ctx, params)))
}
