/** Forms as data: turns a provider's fields into a wizard step, and checks the answers. */
import type { FlowField } from '@coffer/contract/sync'
import { invalid } from '../../../failure.ts'
import { isFault } from '../../../providers/fault.ts'
import type { Connection, CopyFacts, CopyField, Field, Values } from '../../../providers/provider.ts'

type AnswerableField = Exclude<Field, CopyField>

const isAnswerable = (field: Field): field is AnswerableField => field.kind !== 'copy'
const isAnswered = (values: Values, id: string) => (values[id] ?? '') !== ''
const isOptionalIn = ({ isOptional }: AnswerableField, values: Values): boolean =>
  typeof isOptional === 'function' ? isOptional(values) : isOptional === true

/** Adds the default of each field that has no answer. */
function withDefaults(fields: readonly Field[], values: Values): Values {
  const filled: Record<string, string> = { ...values }
  for (const field of fields) {
    if (isAnswerable(field) && field.defaultValue !== undefined && !isAnswered(filled, field.id)) {
      filled[field.id] = field.defaultValue
    }
  }
  return filled
}

/** The fields to show, given the answers so far: some depend on earlier answers. */
function visibleFields(fields: readonly Field[], values: Values): Field[] {
  const filled = withDefaults(fields, values)
  return fields.filter(
    ({ after = [], when }) =>
      after.every((id) => isAnswered(values, id) || isAnswered(filled, id)) && when?.(filled) !== false,
  )
}

/** True if a required field depends on an answer of this form, and is not shown yet: the step must be asked again. */
export function isAskedAgain(fields: readonly Field[], values: Values): boolean {
  const filled = withDefaults(fields, values)
  const shown = new Set(visibleFields(fields, values))
  return fields.filter(isAnswerable).some((field) => {
    const isWaiting = !shown.has(field) && field.when?.(filled) !== false
    return isWaiting && !isAnswered(filled, field.id) && !isOptionalIn(field, filled)
  })
}

export type Checked = {
  readonly answers: Values
  /** The first required field that was not shown yet: the step is asked again, with this field. */
  readonly next?: string
}

/** Throws a 400 that starts with the field's id. `shown` are the answers that the form was rendered with. */
export function checkAnswers(fields: readonly Field[], shown: Values, given: Values): Checked {
  for (const id of Object.keys(given)) {
    if (!fields.some((field) => field.id === id)) throw invalid(id, 'is not a field of this step.')
  }
  const trimmed = Object.fromEntries(Object.entries(given).map(([id, value]) => [id, value.trim()]))
  const wasVisible = new Set(visibleFields(fields, shown).map(({ id }) => id))
  const answers: Record<string, string> = {}
  let next: string | undefined
  for (const field of visibleFields(fields, trimmed).filter(isAnswerable)) {
    const value = valueMeant(field, trimmed[field.id] || field.defaultValue || '')
    const others = { ...trimmed, ...answers }
    if (value !== '') {
      checkAnswer(field, value, others)
      answers[field.id] = value
    } else if (!isOptionalIn(field, others)) {
      if (wasVisible.has(field.id)) throw invalid(field.id, 'is required.')
      next ??= field.id
    }
  }
  return next === undefined ? { answers } : { answers, next }
}

function valueMeant(field: AnswerableField, answer: string): string {
  if (field.kind !== 'select' || !field.byLabel || typeof field.options === 'function') return answer
  return field.options.find(({ label }) => label === answer)?.value ?? answer
}

function checkAnswer(field: AnswerableField, value: string, values: Values): void {
  if (/(?![\t\n\r])\p{Cc}/u.test(value)) throw invalid(field.id, 'contains a control character.')
  if (field.kind === 'select' && typeof field.options !== 'function') {
    const offered = field.options.map((option) => (field.byLabel ? option.label : option.value))
    const isOffered = field.options.some((option) => option.value === value)
    if (!isOffered) throw invalid(field.id, `is not one of ${offered.join(', ')}.`)
  }
  const problem = field.check?.(value, values)
  if (problem !== undefined) throw invalid(field.id, problem)
}

/** Whether a refusal by the vendor can be about this answer; not if the form itself lists all choices. */
export const isRefusable = (field: Field): field is AnswerableField =>
  isAnswerable(field) && !field.isFree && !(field.kind === 'select' && typeof field.options !== 'function')

/** The first answer that the vendor, asked again, does not offer. A field is free text if its list may not be read. */
export async function findUnoffered(
  fields: readonly Field[],
  answers: Values,
  connection: Connection,
): Promise<string | undefined> {
  for (const field of visibleFields(fields, answers)) {
    if (field.kind !== 'select' || typeof field.options !== 'function' || !isAnswered(answers, field.id)) continue
    const offered = await field.options(connection).catch((error) => {
      // The list does not exist, so an answer that it depends on is wrong: most likely the last one.
      const before = fields.filter((other) => isRefusable(other) && field.after?.includes(other.id)).at(-1)
      if (!before || !isFault(error, 'gone')) throw error
      return before.id
    })
    if (typeof offered === 'string') return offered
    if (offered && !offered.some(({ value }) => value === answers[field.id])) return field.id
  }
  return undefined
}

/**
 * `connection` has the new credential and the answers so far, for lists that are fetched from the vendor. `mapping`: the
 * answers of the mapping step, as far as they were given.
 */
export async function renderFields(
  fields: readonly Field[],
  values: Values,
  connection: Connection,
  mapping: Values,
): Promise<FlowField[]> {
  const rendered: FlowField[] = []
  const filled = withDefaults(fields, values)
  for (const field of visibleFields(fields, values)) {
    if (field.kind === 'copy') rendered.push(renderCopy(field, field.text(factsOf(values, connection, mapping))))
    else rendered.push(await renderField(field, values, filled, connection))
  }
  return rendered
}

type Given = Pick<Connection, 'syncId' | 'target'>

const factsOf = (values: Values, { syncId, target }: Given, mapping: Values): CopyFacts => ({
  syncId,
  values,
  target,
  mapping,
  takesOver: mapping.onExisting === 'adopt',
})

/** The copy fields of the auth step whose text depends on the target and the mapping, which are known now. */
export function settledCopies(fields: readonly Field[], values: Values, given: Given, mapping: Values): FlowField[] {
  return visibleFields(fields, values).flatMap((field) => {
    if (field.kind !== 'copy') return []
    const before = field.text(factsOf(values, { ...given, target: {} }, {}))
    const facts = factsOf(values, given, mapping)
    const text = field.text(facts)
    if (text === before) return []
    const what = facts.takesOver ? 'This sync takes over existing entries, which this allows. ' : ''
    const description = `${what}It holds the answers of this sync: use it instead of the one that the auth step showed.`
    return [renderCopy({ ...field, label: `${field.label}, for this sync`, description }, text)]
  })
}

function renderCopy({ id, label, description, language }: CopyField, value: string): FlowField {
  return { id, label, type: 'copy', data: { value, language, ...(description !== undefined && { description }) } }
}

/** `filled` is `values` with defaults for missing answers. */
async function renderField(
  field: AnswerableField,
  values: Values,
  filled: Values,
  connection: Connection,
): Promise<FlowField> {
  const { id, label, description } = field
  const about = description === undefined ? {} : { description }
  const { placeholder = '' } = field
  const defaultValue = field.kind === 'password' ? undefined : values[id] || field.defaultValue
  const common = {
    placeholder,
    isRequired: !isOptionalIn(field, filled),
    ...about,
    ...(defaultValue !== undefined && defaultValue !== '' && { defaultValue }),
  }
  if (field.kind === 'select') {
    const options = typeof field.options === 'function' ? await field.options(connection) : field.options
    if (options) {
      const offered = options.map(({ label, value }) => ({ label, value }))
      return { id, label, type: 'select', data: { ...common, options: offered } }
    }
  }
  return { id, label, type: 'input', data: { type: field.kind === 'password' ? 'password' : 'text', ...common } }
}
