/** Fields that many records share, with their lengths and patterns. */
import { type Static, type TSchema, Type } from './schema.ts'

const hex = '[0-9a-fA-F]'
/** The form of a UUID, whatever its version. Paths accept names beside ids, so no name may have this form. */
export const idForm = `^${hex}{8}(-${hex}{4}){3}-${hex}{12}$`
const uuidPattern = `^(${hex}{8}-${hex}{4}-[1-8]${hex}{3}-[89abAB]${hex}{3}-${hex}{12}|0{8}-0{4}-0{4}-0{4}-0{12}|[fF]{8}-[fF]{4}-[fF]{4}-[fF]{4}-[fF]{12})$`

export const Id = Type.String({ pattern: uuidPattern, minLength: 36, maxLength: 36, description: 'UUID' })
export const Slug = Type.String({ pattern: '^[a-z0-9-]+$', minLength: 2, maxLength: 48 })
/** A string or null; a list of types serialises several times faster than a union. */
export const nullable = (schema: TSchema) => Type.Unsafe<string | null>({ ...schema, type: ['string', 'null'] })
export const Timestamp = Type.String({ format: 'date-time', maxLength: 30 })
export const MaybeTimestamp = nullable(Timestamp)

/** One line of text without control characters, and not only white space. */
export const line = (maxLength: number) =>
  Type.String({ minLength: 1, maxLength, pattern: '^(?=.*\\S)[^\\u0000-\\u001f\\u007f]+$' })
export const Name = line(64)
/** An address of the form local@domain, without white space and control characters. */
export const Email = Type.String({
  minLength: 3,
  maxLength: 254,
  pattern: '^[^\\s@\\u0000-\\u001f\\u007f]+@[^\\s@\\u0000-\\u001f\\u007f]+$',
})
const unseen = '\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f'
/** A new address also has no invisible characters, nor any that reverse text: it would look like somebody else's. */
export const NewEmail = Type.String({ ...Email, pattern: `^[^\\s@${unseen}]+@[^\\s@${unseen}]+$` })
export const Password = Type.String({ minLength: 12, maxLength: 256 })

/** Optional, so that a missing password is refused like a wrong one: with 403, and counted like a failed login. */
export const ConfirmingPassword = Type.Optional(
  Type.String({ maxLength: 256, description: 'The password of the account' }),
)

/**
 * Proof that the person is there, for acts that a stolen session must not allow: the password, or a code of the
 * authenticator app or a recovery code.
 */
export const confirmation = {
  password: ConfirmingPassword,
  code: Type.Optional(
    Type.String({ maxLength: 64, description: 'A code of the second factor, instead of the password' }),
  ),
}

export const closed = { additionalProperties: false } as const

export const Confirmation = Type.Object(confirmation, closed)
export type Confirmation = Static<typeof Confirmation>

export const Success = Type.Object({ success: Type.Boolean() })
export const ErrorBody = Type.Object({ message: Type.String() }, closed)
export const Nothing = Type.Object({}, closed)

/** One of a few words, as a plain JSON schema that every tool understands. */
export const words = <const Words extends readonly string[]>(...list: Words) =>
  Type.Unsafe<Words[number]>({ type: 'string', enum: list })

/** A list in a query, `name=a&name=b`. One value alone is a list too. */
export const repeated = <Item extends TSchema>(items: Item, limits: { minItems?: number; maxItems: number }) =>
  Type.Unsafe<Static<Item> | Static<Item>[]>({ type: 'array', items, ...limits, explode: true })

type Shape = TSchema & { readonly properties: Record<string, TSchema> }
/** A discriminated union: errors are reported for the shape that `field` names. The title of a shape is its name in OpenAPI. */
export const variants = <const Shapes extends readonly Shape[]>(field: string, ...shapes: Shapes) =>
  Type.Unsafe<Static<Shapes[number]>>({
    type: 'object',
    required: [field],
    properties: { [field]: words(...shapes.map(({ properties }) => Object(properties[field]).const)) },
    discriminator: { propertyName: field },
    oneOf: shapes,
  })

export const Permission = words('read', 'read-write')
export type Permission = Static<typeof Permission>
export const Role = words('member', 'developer', 'admin')
export type Role = Static<typeof Role>

const idList = Type.Array(Id, { maxItems: 1000 })
/** A scope in a request, where an absent list means an empty one. */
export const NewScope = Type.Object(
  {
    all: Type.Optional(Type.Boolean()),
    teams: Type.Optional(idList),
    projects: Type.Optional(idList),
    environments: Type.Optional(idList),
  },
  closed,
)
export type NewScope = Static<typeof NewScope>
export const Scope = Type.Object({ all: Type.Boolean(), teams: idList, projects: idList, environments: idList })
export type Scope = Static<typeof Scope>

/**
 * A role within a scope. Whoever holds several has, at each place, the highest role among the grants that reach it; what
 * concerns the whole workspace needs a grant with the scope `all`.
 */
export const Grant = Type.Object({ role: Role, scope: Scope })
export type Grant = Static<typeof Grant>
export const NewGrant = Type.Object({ role: Role, scope: NewScope }, closed)
export type NewGrant = Static<typeof NewGrant>
const grantCount = { minItems: 1, maxItems: 20 }
export const Grants = Type.Array(Grant, grantCount)
export const NewGrants = Type.Array(NewGrant, grantCount)

export const WorkspacePath = Type.Object({ ws: Slug })
export type WorkspacePath = Static<typeof WorkspacePath>
export const ProjectPath = Type.Object({ ws: Slug, prj: Slug })
export type ProjectPath = Static<typeof ProjectPath>
export const EnvironmentPath = Type.Object({ ws: Slug, prj: Slug, environmentId: Id })
export type EnvironmentPath = Static<typeof EnvironmentPath>
export const IdPath = Type.Object({ ws: Slug, id: Id })
export type IdPath = Static<typeof IdPath>

/** Gives a token or a sync to a service account. */
export const Transfer = Type.Object({ serviceAccountId: Id }, closed)
export type Transfer = Static<typeof Transfer>

/** What a removal would end, without removing anything. */
export const DryRunQuery = Type.Object({ dryRun: Type.Optional(Type.Boolean()) })
export type DryRunQuery = Static<typeof DryRunQuery>

/** Query of paginated lists. The next cursor is in the response header X-Next-Cursor, absent on the last page. */
export const page = {
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50 })),
  cursor: Type.Optional(Type.String({ minLength: 1, maxLength: 200, pattern: '^[A-Za-z0-9_-]+$' })),
}
