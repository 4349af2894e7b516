/** The given sync records and bodies. Flow steps and their fields forbid additional properties. */

import { closed, line, Slug, words } from './field.ts'
import { type Static, type TSchema, Type } from './schema.ts'

export const SyncProvider = Type.Object({
  id: Type.String(),
  slug: Slug,
  defaultName: Type.String(),
  logo: Type.String(),
  docs: Type.String(),
  website: Type.String(),
  soon: Type.Boolean(),
})
export type SyncProvider = Static<typeof SyncProvider>

const flowField = <const Kind extends string, Data extends Record<string, TSchema>>(kind: Kind, data: Data) =>
  Type.Object(
    { id: Type.String(), type: Type.Literal(kind), label: Type.String(), data: Type.Object(data, closed) },
    closed,
  )

const optionalText = Type.Optional(Type.String())
const optionalFlag = Type.Optional(Type.Boolean())

export const FlowField = Type.Union([
  flowField('input', {
    type: words('text', 'password'),
    placeholder: Type.String(),
    defaultValue: optionalText,
    description: optionalText,
    isRequired: optionalFlag,
  }),
  flowField('select', {
    placeholder: Type.String(),
    defaultValue: optionalText,
    isRequired: optionalFlag,
    description: optionalText,
    options: Type.Array(Type.Object({ label: Type.String(), value: Type.String() })),
  }),
  flowField('callback', { url: Type.String() }),
  flowField('copy', {
    value: Type.String(),
    description: optionalText,
    language: Type.Optional(words('text', 'json', 'bash')),
  }),
])
export type FlowField = Static<typeof FlowField>

export const FlowStep = Type.Object(
  {
    description: Type.String(),
    fields: Type.Array(FlowField),
    next: Type.Object({ text: optionalText, step: optionalText, url: optionalText }, closed),
  },
  closed,
)
export type FlowStep = Static<typeof FlowStep>

export const SyncPath = Type.Object({ slug: Slug })
export const SyncStart = Type.Object({ projectId: Type.String(), name: Type.Optional(line(64)) }, closed)
export const SyncStarted = Type.Object({ syncConfigId: Type.String() })
export const FlowQuery = Type.Object({ syncConfigId: line(64), step: line(64) })
export const FlowSubmitted = Type.Object({ step: Type.String(), syncConfigId: Type.String() })
