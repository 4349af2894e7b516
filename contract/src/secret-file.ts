/** Secrets as files: import into an environment, and export from one. */
import type { Endpoint } from './endpoint.ts'
import { closed, ProjectPath, repeated, words } from './field.ts'
import { type Static, Type } from './schema.ts'
import { EnvironmentKey, Message, Mode, oneEnvironment, RevisionResults, SecretName, secretsPath } from './secret.ts'

export const SecretImport = Type.Object(
  {
    environmentId: EnvironmentKey,
    format: words('dotenv', 'json', 'yaml', 'csv'),
    content: Type.String({ maxLength: 8 * 1024 * 1024 }),
    mode: Type.Optional(Mode),
    message: Type.Optional(Message),
    dryRun: Type.Optional(Type.Boolean()),
    /** `${` in the file is text, and no reference. */
    literal: Type.Optional(Type.Boolean()),
  },
  closed,
)
export type SecretImport = Static<typeof SecretImport>

export const exportFormats = ['dotenv', 'shell', 'json', 'yaml', 'csv', 'docker', 'k8s', 'tfvars'] as const
export const SecretExport = Type.Object({
  ...oneEnvironment,
  /** All of them if omitted. */
  key: Type.Optional(repeated(SecretName, { minItems: 1, maxItems: 1000 })),
  format: Type.Optional(words(...exportFormats)),
  resolve: Type.Optional(Type.Boolean()),
  onUnresolved: Type.Optional(words('keep', 'empty', 'error')),
  /** Names that format=shell exports although a program obeys them. */
  allowName: Type.Optional(repeated(SecretName, { minItems: 1, maxItems: 1000 })),
  /** With format=shell, every name. */
  allowUnsafe: Type.Optional(Type.Boolean()),
})
export type SecretExport = Static<typeof SecretExport>

export const secretFileEndpoints = {
  importSecrets: {
    method: 'POST',
    path: `${secretsPath}/import`,
    area: 'secret',
    summary: 'Import secrets from a file into an environment',
    permission: 'secret:write',
    params: ProjectPath,
    body: SecretImport,
    status: 200,
    response: RevisionResults,
    errors: [403, 404, 409],
  },
  exportSecrets: {
    method: 'GET',
    path: `${secretsPath}/export`,
    area: 'secret',
    summary: 'Export the secrets of an environment as a file',
    permission: 'secret:read',
    params: ProjectPath,
    query: SecretExport,
    status: 200,
    // JSON exports are an object of keys and values; every other format is text.
    response: Type.Union([Type.Record(Type.String(), Type.String()), Type.String()]),
    errors: [404, 409],
    streams: ['text/plain', 'application/yaml', 'text/csv'],
  },
} as const satisfies Record<string, Endpoint>
