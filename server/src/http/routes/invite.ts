import { inviteEndpoints } from '@coffer/contract/invite'
import { acceptInvite, createInvite, declineInvite, lookUpInvite, resendInvite } from '../../domain/workspace/invite.ts'
import { type Routes, succeed } from '../route.ts'

export const inviteRoutes: Routes = (serve) => {
  serve(inviteEndpoints.createInvite, ({ ctx, params, body }) => createInvite(ctx, params, body))
  serve(inviteEndpoints.resendInvite, ({ ctx, params }) => resendInvite(ctx, params))
  serve(inviteEndpoints.lookUpInvite, ({ ctx, body }) => lookUpInvite(ctx, body))
  serve(inviteEndpoints.acceptInvite, ({ ctx, body }) => acceptInvite(ctx, body))
  serve(inviteEndpoints.declineInvite, ({ ctx, body }) => succeed(declineInvite(ctx, body)))
}
