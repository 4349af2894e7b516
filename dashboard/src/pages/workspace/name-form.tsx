import { type FormEvent, useState } from 'react'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { ErrorNote } from '../../parts/error-note.tsx'
import { errorBeside } from '../../parts/field-error.ts'
import { NameAndSlug, type Named } from '../../parts/name-and-slug.tsx'
import { Note } from '../../parts/note.tsx'
import { say } from '../../parts/toast.tsx'

type NameFormProps = {
  readonly label: string
  readonly before: Named
  readonly address: (slug: string) => string
  /** Shown before a new slug is saved: what stops working. */
  readonly warning: string
  readonly save: (change: Partial<Named>) => Promise<unknown>
}

/** Renames something that has a name and an address. */
export function NameForm({ label, before, address, warning, save }: NameFormProps) {
  const [named, setNamed] = useState<Named>({ name: before.name, slug: before.slug })
  const hasNewName = named.name !== before.name
  const hasNewSlug = named.slug !== before.slug
  const { run, isBusy, error } = useAction(async () => {
    await save({ ...(hasNewName && { name: named.name }), ...(hasNewSlug && { slug: named.slug }) })
    say('Saved.')
  })

  function submit(event: FormEvent): void {
    event.preventDefault()
    void run()
  }

  return (
    <form className="settings-form" onSubmit={submit}>
      <NameAndSlug
        label={label}
        isNew={false}
        slugHint={`Address: ${address(named.slug || '…')}`}
        value={named}
        error={error}
        onChange={setNamed}
      />
      {hasNewSlug && <Note tone="warn">{warning}</Note>}
      <ErrorNote error={errorBeside(error, 'name', 'slug')} />
      <Button type="submit" className="self-start" isBusy={isBusy} disabled={!hasNewName && !hasNewSlug}>
        Save
      </Button>
    </form>
  )
}
