import { oidcEndpoints } from '@coffer/contract/oidc'
import { exchangeIdentity, testIdentity } from '../../../domain/oidc/exchange.ts'
import {
  createIdentity,
  deleteIdentity,
  listIdentities,
  readIdentity,
  updateIdentity,
} from '../../../domain/oidc/oidc.ts'
import { listIdentityPresets } from '../../../domain/oidc/preset.ts'
import { type Routes, succeed } from '../../route.ts'

export const oidcRoutes: Routes = (serve) => {
  serve(oidcEndpoints.exchangeIdentity, ({ ctx, body }) => exchangeIdentity(ctx, body))
  serve(oidcEndpoints.listIdentities, ({ ctx, params }) => listIdentities(ctx, params))
  serve(oidcEndpoints.createIdentity, ({ ctx, params, body }) => createIdentity(ctx, params, body))
  serve(oidcEndpoints.listIdentityPresets, ({ ctx, params }) => listIdentityPresets(ctx, params))
  serve(oidcEndpoints.readIdentity, ({ ctx, params }) => readIdentity(ctx, params))
  serve(oidcEndpoints.updateIdentity, ({ ctx, params, body }) => updateIdentity(ctx, params, body))
  serve(oidcEndpoints.deleteIdentity, ({ ctx, params }) => succeed(deleteIdentity(ctx, params)))
  serve(oidcEndpoints.testIdentity, ({ ctx, params, body }) => testIdentity(ctx, params, body))
}
