/** Forms and choices: labelled fields, buttons, and errors beside the field that they are about. */
import { button, element, whileBusy } from './element.ts'
import { note } from './page.ts'
import { sentenceOf } from './service.ts'

type FieldOptions = Partial<
  Pick<
    HTMLInputElement,
    | 'type'
    | 'value'
    | 'autocomplete'
    | 'autocapitalize'
    | 'readOnly'
    | 'required'
    | 'minLength'
    | 'maxLength'
    | 'spellcheck'
    | 'className'
  >
> & { readonly hint?: string }

export type Field = {
  readonly input: HTMLInputElement
  readonly row: HTMLElement
  /** Shows what is wrong, or that nothing is. */
  complain(message: string | undefined): void
}

/** `name` is the field's name on the wire: refusals begin with it. */
export function textField(name: string, label: string, { hint, ...options }: FieldOptions): Field {
  const input = element('input', { id: name, name, ...options })
  const about = element('span', { id: `${name}-hint`, className: 'hint' }, hint ?? '')
  const error = element('span', { id: `${name}-error`, className: 'error' })
  input.setAttribute('aria-describedby', [error.id, ...(hint === undefined ? [] : [about.id])].join(' '))
  const row = element('div', { className: 'field' }, element('label', { htmlFor: name }, label), input, error)
  if (hint !== undefined) row.append(about)
  return {
    input,
    row,
    complain(message) {
      error.textContent = message ?? ''
      input.ariaInvalid = message === undefined ? null : 'true'
      if (message !== undefined) input.focus()
    },
  }
}

/** Turns an error into the sentence to show, or into nothing if another step is shown by now. */
type Explain = (error: unknown) => string | undefined

type FormOptions = {
  readonly label: string
  readonly fields: readonly Field[]
  readonly submit: () => Promise<void>
  readonly explain?: Explain
}

export function createForm({ label, fields, submit, explain = sentenceOf }: FormOptions): HTMLFormElement {
  const confirm = element('button', { type: 'submit', className: 'button primary' }, label)
  const problem = element('div', { className: 'problem' })
  const form = element('form', {}, ...fields.map(({ row }) => row), problem, confirm)

  function show(message: string | undefined): void {
    const [, name, text = ''] = /^(\w+): (.*)$/s.exec(message ?? '') ?? []
    const wrong = fields.find(({ input }) => input.name === name)
    wrong?.complain(text.charAt(0).toUpperCase() + text.slice(1))
    problem.replaceChildren(...(message === undefined || wrong ? [] : [note('bad', message)]))
  }

  form.addEventListener('submit', (event) => {
    event.preventDefault()
    void whileBusy(confirm, async () => {
      for (const field of fields) field.complain(undefined)
      problem.replaceChildren()
      await submit().catch((error: unknown) => show(explain(error)))
    })
  })
  return form
}

type Choice = readonly [label: string, kind: 'primary' | 'plain' | 'quiet', work: () => Promise<void>]

/** Buttons side by side, and above them the reason why one of them did not work. */
export function createChoices(choices: readonly Choice[], explain: Explain = sentenceOf): HTMLElement {
  const problem = element('div', { className: 'problem' })
  const buttons = choices.map(([label, kind, work]) =>
    button(label, kind, async () => {
      problem.replaceChildren()
      await work().catch((error: unknown) => {
        const sentence = explain(error)
        if (sentence !== undefined) problem.append(note('bad', sentence))
      })
    }),
  )
  return element('div', { className: 'choices' }, problem, ...buttons)
}
