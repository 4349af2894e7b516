/** Labelled form fields. An error stands below its field and is announced with it. */
import { type ComponentProps, type ReactNode, useId } from 'react'
import './field.css'

type Labelled = {
  readonly label: string
  readonly hint?: ReactNode
  readonly error?: string | undefined
  /** Keeps the label for screen readers only. */
  readonly isLabelHidden?: boolean
}

type Described = { readonly id: string; readonly 'aria-describedby'?: string; readonly 'aria-invalid'?: true }

/** Wraps any control; pass it the attributes that `children` gets. */
export function Field({
  label,
  hint,
  error,
  isLabelHidden = false,
  children,
}: Labelled & { readonly children: (described: Described) => ReactNode }) {
  const id = useId()
  const notes = [hint ? `${id}-hint` : '', error ? `${id}-error` : ''].filter(Boolean).join(' ')
  return (
    <div className="field">
      <label htmlFor={id} className={isLabelHidden ? 'sr-only' : ''}>
        {label}
      </label>
      {children({ id, ...(notes && { 'aria-describedby': notes }), ...(error && { 'aria-invalid': true as const }) })}
      {hint && (
        <p id={`${id}-hint`} className="hint">
          {hint}
        </p>
      )}
      {error && (
        <p id={`${id}-error`} className="error">
          {error}
        </p>
      )}
    </div>
  )
}

export function TextField({ label, hint, error, isLabelHidden, ...input }: Labelled & ComponentProps<'input'>) {
  return (
    <Field label={label} hint={hint} error={error} isLabelHidden={isLabelHidden ?? false}>
      {(described) => <input autoComplete="off" spellCheck={false} {...input} {...described} />}
    </Field>
  )
}

export function TextAreaField({ label, hint, error, isLabelHidden, ...area }: Labelled & ComponentProps<'textarea'>) {
  return (
    <Field label={label} hint={hint} error={error} isLabelHidden={isLabelHidden ?? false}>
      {(described) => <textarea autoComplete="off" spellCheck={false} rows={4} {...area} {...described} />}
    </Field>
  )
}

export function SelectField({ label, hint, error, isLabelHidden, ...select }: Labelled & ComponentProps<'select'>) {
  return (
    <Field label={label} hint={hint} error={error} isLabelHidden={isLabelHidden ?? false}>
      {(described) => <select {...select} {...described} />}
    </Field>
  )
}

export function CheckField({
  label,
  hint,
  ...input
}: Omit<Labelled, 'label' | 'error'> & ComponentProps<'input'> & { readonly label: ReactNode }) {
  return (
    <label className="check">
      <input type="checkbox" {...input} />
      <span>
        {label}
        {hint && <span className="hint">{hint}</span>}
      </span>
    </label>
  )
}
