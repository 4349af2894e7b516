import { meEndpoints } from '@coffer/contract/me'
import { readMe } from '../../domain/me.ts'
import type { Routes } from '../route.ts'

export const meRoutes: Routes = (serve) => {
  serve(meEndpoints.readMe, ({ ctx }) => readMe(ctx))
}
