import { useState } from 'react'
import { Dialog } from '../../parts/dialog.tsx'
import { CheckField } from '../../parts/field.tsx'
import { hasLetterKeys, setLetterKeys } from '../../parts/letter-keys.ts'
import { keyHelp, letterHelp } from './keys.ts'
import './key-help.css'

/** All keys of the grid, and the switch for those that are single letters. */
export function KeyHelp({ onClose }: { readonly onClose: () => void }) {
  const [isOn, setOn] = useState(hasLetterKeys)
  return (
    <Dialog title="Keyboard shortcuts" isOpen onClose={onClose}>
      <KeyList entries={keyHelp} />
      <CheckField
        label="Single-letter keys"
        hint="Switch them off if you use speech input, or press them by accident."
        checked={isOn}
        onChange={(event) => {
          setLetterKeys(event.target.checked)
          setOn(event.target.checked)
        }}
      />
      {isOn && <KeyList entries={letterHelp} />}
    </Dialog>
  )
}

function KeyList({ entries }: { readonly entries: typeof keyHelp | typeof letterHelp }) {
  return (
    <dl className="keys">
      {entries.map(({ keys, text }) => (
        <div key={text} className="contents">
          <dt>
            {keys.map((key) => (
              <kbd key={key}>{key}</kbd>
            ))}
          </dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  )
}
