import type { Endpoint } from './endpoint.ts'
import { Id, page, WorkspacePath } from './field.ts'
import { type Static, Type } from './schema.ts'
import { SearchText } from './secret.ts'

export const SecretSearch = Type.Object({
  ...page,
  // Sealed, and long enough for a name of 255 characters and an id.
  cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 500, pattern: '^[A-Za-z0-9_-]+$' })),
  q: Type.Optional(SearchText),
})
export type SecretSearch = Static<typeof SecretSearch>

export const FoundSecret = Type.Object({
  id: Id,
  name: Type.String(),
  project: Type.Object({ id: Id, slug: Type.String(), name: Type.String() }),
  /** Those where the caller sees a value of it. */
  environments: Type.Array(Type.Object({ id: Id, name: Type.String() })),
})
export type FoundSecret = Static<typeof FoundSecret>

export const secretSearchEndpoints = {
  searchSecrets: {
    method: 'GET',
    path: '/v1/workspace/:ws/secret',
    area: 'secret',
    summary: 'Find secrets by name in all projects; never returns values',
    permission: 'secret:read',
    params: WorkspacePath,
    query: SecretSearch,
    status: 200,
    response: Type.Array(FoundSecret),
    errors: [404],
    withoutValues: true,
  },
} as const satisfies Record<string, Endpoint>
