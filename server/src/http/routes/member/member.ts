import { memberEndpoints } from '@coffer/contract/member'
import { listMembers, removeMember, updateMember } from '../../../domain/workspace/member.ts'
import { resetMemberMfa } from '../../../domain/workspace/member-mfa.ts'
import { type Routes, succeed } from '../../route.ts'

export const memberRoutes: Routes = (serve) => {
  serve(memberEndpoints.listMembers, ({ ctx, params }) => listMembers(ctx, params))
  serve(memberEndpoints.updateMember, ({ ctx, params, body }) => updateMember(ctx, params, body))
  serve(memberEndpoints.removeMember, ({ ctx, params, query }) => removeMember(ctx, params, query))
  serve(memberEndpoints.resetMemberMfa, ({ ctx, params }) => succeed(resetMemberMfa(ctx, params)))
}
