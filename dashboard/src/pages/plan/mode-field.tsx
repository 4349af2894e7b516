import type { SecretImport } from '@coffer/sdk'
import { SelectField } from '../../parts/field.tsx'

export type WriteMode = NonNullable<SecretImport['mode']>

const texts: Readonly<Record<WriteMode, string>> = {
  skip: 'Keep the values that are there',
  upsert: 'Replace the values that are there',
  create: 'Stop if any of them is there already',
}
/** From the least to the most that can be lost, except for the one that only refuses. */
const modes = ['skip', 'upsert', 'create'] as const

type ModeFieldProps = { readonly mode: WriteMode; readonly onChange: (mode: WriteMode) => void }

/** Decides about keys that have a value already. */
export function ModeField({ mode, onChange }: ModeFieldProps) {
  return (
    <SelectField
      label="Keys that exist already"
      value={mode}
      onChange={(event) => onChange(modes.find((one) => one === event.target.value) ?? 'skip')}
    >
      {modes.map((one) => (
        <option key={one} value={one}>
          {texts[one]}
        </option>
      ))}
    </SelectField>
  )
}
