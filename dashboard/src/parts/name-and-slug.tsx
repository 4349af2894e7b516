import type { ReactNode } from 'react'
import { TextField } from './field.tsx'
import { fieldError } from './field-error.ts'
import { slugOf } from './slug.ts'

export type Named = { readonly name: string; readonly slug: string }

type NameAndSlugProps = {
  readonly label: string
  readonly value: Named
  readonly onChange: (value: Named) => void
  readonly error: unknown
  /** Prefix of the fields in the service's messages, such as `workspace.`. */
  readonly prefix?: string
  readonly slugHint?: ReactNode
  readonly placeholder?: string
  readonly autoFocus?: boolean
  /** Existing things keep their slug while their name changes. */
  readonly isNew?: boolean
}

/** The slug follows the name until somebody types one. */
export function NameAndSlug({ value, onChange, error, isNew = true, ...props }: NameAndSlugProps) {
  const { label, prefix = '', slugHint, placeholder, autoFocus } = props
  const { name, slug } = value
  const isSuggested = isNew && slug === slugOf(name)
  return (
    <>
      <TextField
        label={label}
        required
        maxLength={64}
        placeholder={placeholder}
        autoFocus={autoFocus}
        value={name}
        error={fieldError(error, `${prefix}name`)}
        onChange={({ target }) => onChange({ name: target.value, slug: isSuggested ? slugOf(target.value) : slug })}
      />
      <TextField
        label="Slug"
        required
        minLength={2}
        maxLength={48}
        pattern="[a-z0-9\-]+"
        title="Small letters, digits and dashes"
        className="font-mono"
        hint={slugHint}
        value={slug}
        error={fieldError(error, `${prefix}slug`)}
        onChange={({ target }) => onChange({ name, slug: target.value })}
      />
    </>
  )
}
