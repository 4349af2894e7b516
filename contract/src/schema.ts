/**
 * JSON schemas with TypeBox's types. At run time only these few builders are needed; loading TypeBox itself would cost
 * every process 20 MB and 80 ms.
 */
import type TypeBox from 'typebox'

export type { Static, TSchema } from 'typebox'

type Builders = 'Array' | 'Boolean' | 'Integer' | 'Literal' | 'Null' | 'Object' | 'Optional' | 'Record' | 'String'
type Schema = Record<string | symbol, unknown>

const optional = Symbol('optional')
const simple = (type: string) => (options: Schema) => ({ type, ...options })

const builders = {
  Array: (items: Schema, options: Schema) => ({ type: 'array', items, ...options }),
  Boolean: simple('boolean'),
  Integer: simple('integer'),
  Literal: (value: string) => ({ type: 'string', const: value }),
  Null: simple('null'),
  Object(properties: Record<string, Schema>, options: Schema) {
    const required = Object.keys(properties).filter((name) => !properties[name]?.[optional])
    return { type: 'object', ...(required.length > 0 && { required }), properties, ...options }
  },
  Optional: (schema: Schema) => ({ ...schema, [optional]: true }),
  Record: (_key: Schema, value: Schema) => ({ type: 'object', additionalProperties: value }),
  String: simple('string'),
  Union: (anyOf: Schema[]) => ({ anyOf }),
  Unknown: () => ({}),
  Unsafe: (schema: Schema) => schema,
}

/** The signatures of TypeBox's own builders, so that types are inferred in the same way. */
export const Type = builders as unknown as Pick<typeof TypeBox, Builders | 'Union' | 'Unknown' | 'Unsafe'>
