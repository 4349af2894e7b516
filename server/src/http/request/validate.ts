/** Validates request input and words the error message: the field's name, a colon, the problem. */
import type { TSchema } from '@coffer/contract/schema'
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import addFormatsModule from 'ajv-formats'
import { Failure } from '../../failure.ts'

// Its types describe an ES module, but it is published as CommonJS.
const addFormats = addFormatsModule as unknown as (ajv: Ajv, formats: string[]) => Ajv

const shared = {
  allErrors: false,
  useDefaults: true,
  removeAdditional: false,
  strict: false,
  ownProperties: true,
  discriminator: true,
} as const
/** Bodies are typed JSON and validated strictly. Paths and queries are text: numbers are converted, and one value alone where a list is expected. */
const exact = addFormats(new Ajv({ ...shared, coerceTypes: false }), ['date-time'])
const fromText = addFormats(new Ajv({ ...shared, coerceTypes: 'array' }), ['date-time'])

/**
 * Returns a validator that throws the first problem. Numbers in text are converted in place. For `answersIn`, see
 * `Endpoint`.
 */
export function validatorOf(
  schema: TSchema,
  part: 'params' | 'querystring' | 'body',
  answersIn?: string,
): (data: unknown) => void {
  let validate: ValidateFunction | undefined
  const hasEnvironment = part === 'querystring' && 'environmentId' in Object(Object(schema).properties)
  return (data) => {
    if (hasEnvironment) unifySpelling(data)
    // Compiled on first use: most processes never serve most routes.
    validate ??= (part === 'body' ? exact : fromText).compile(schema)
    if (!validate(data)) throw new Failure('invalid', describe(validate.errors ?? [], part, answersIn))
  }
}

/** Queries may also spell `environmentId` as `environment_id`, or use both. */
function unifySpelling(query: unknown): void {
  // The router has parsed it: every value is a text or a list of texts.
  const fields = query as Record<string, string | string[] | undefined>
  const { environment_id: other, environmentId: own } = fields
  if (other === undefined) return
  delete fields.environment_id
  fields.environmentId = own === undefined || own === other ? other : [own, other].flat()
}

function describe(errors: readonly ErrorObject[], part: string, answersIn: string | undefined): string {
  // With `anyOf`, each alternative reports an error. Report an alternative whose type matches, or else the error
  // deepest in the value.
  const told = errors.filter(({ keyword }) => keyword !== 'anyOf')
  const [deepest] = told.toSorted((a, b) => b.instancePath.length - a.instancePath.length)
  const error = told.find(({ keyword }) => keyword !== 'type') ?? deepest
  if (!error) return `${part}: is not valid.`
  const written = error.instancePath.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~')
  // Each text of a list in a query stands beside the field's name.
  const whole = part === 'querystring' ? written.replace(/\.\d+$/, '') : written
  const path = answersIn !== undefined && whole.startsWith(`${answersIn}.`) ? whole.slice(answersIn.length + 1) : whole
  const inside = (name: unknown) => [path, String(name)].filter(Boolean).join('.')
  if (error.keyword === 'required') return `${inside(error.params.missingProperty)}: is required.`
  if (error.keyword === 'additionalProperties') {
    // The name is the caller's own text: truncate it instead of echoing a huge one.
    return `${inside(error.params.additionalProperty).slice(0, 100)}: is not a known field.`
  }
  const types = errors.filter(({ keyword, instancePath }) => keyword === 'type' && instancePath === error.instancePath)
  if (error.keyword === 'type') return `${path || part}: must be ${types.map(typeOf).join(' or ')}.`
  return `${path || part}: ${problem(error)}`
}

const typeOf = ({ params }: ErrorObject) => article(String(params.type).replace(',', ' or '))

function problem({ keyword, params, message }: ErrorObject): string {
  switch (keyword) {
    case 'minLength':
      return params.limit === 1 ? 'must not be empty.' : `must have ${params.limit} characters or more.`
    case 'maxLength':
      return `must have ${params.limit} characters or fewer.`
    case 'pattern':
      return 'has characters or a format that is not allowed.'
    case 'format':
      return 'must be an ISO 8601 date and time.'
    case 'enum':
      return `must be one of: ${params.allowedValues.join(', ')}.`
    case 'minProperties':
      return 'must have at least one field.'
    case 'maxProperties':
      return `must have ${params.limit} fields or fewer.`
    case 'minItems':
      return params.limit === 1 ? 'must not be empty.' : `must have ${params.limit} or more items.`
    case 'maxItems':
      return `must have ${params.limit} items or fewer.`
    case 'minimum':
      return `must be ${params.limit} or more.`
    case 'maximum':
      return `must be ${params.limit} or less.`
    default:
      return message ? `${message}.` : 'is not valid.'
  }
}

const article = (type: string) => (/^[aeio]/.test(type) ? `an ${type}` : `a ${type}`)
