/**
 * The entry of the package. `coffer()` reads the secrets of an application, `coffer.api()` calls every endpoint. Both are
 * also exported alone, so that a bundle holds only the one that it uses.
 */
import { createApi } from './api.ts'
import { openSecrets } from './secrets.ts'

export { createApi, listAll } from './api.ts'
export type { ConnectOptions, Credential } from './connect.ts'
export type * from './contract-types.ts'
export {
  ApiError,
  CofferError,
  ConnectionError,
  InvalidSecret,
  MissingSecret,
  ResponseError,
  SettingError,
} from './error.ts'
export type { InjectOptions } from './inject.ts'
export type { Platform } from './platform.ts'
export type { CallOptions, ResponseDetails } from './request.ts'
export { openSecrets, type Secrets, type SecretsOptions, type Snapshot } from './secrets.ts'
export { fetchTransport, type Transport, type TransportRequest, type TransportResponse } from './transport.ts'
export { describeLeftOut, type LeftOut, wasAlwaysRefused, whyLeftOut, whyNoVariable } from './variable-name.ts'
export type { Change, WatchOptions } from './watch.ts'

type Coffer = typeof openSecrets & { readonly api: typeof createApi }
export const coffer: Coffer = /* @__PURE__ */ Object.assign(
  (options?: Parameters<typeof openSecrets>[0]) => openSecrets(options),
  { api: createApi },
)
