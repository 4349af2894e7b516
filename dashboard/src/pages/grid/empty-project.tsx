import { useState } from 'react'
import { Button } from '../../parts/button.tsx'
import { Snippet } from '../../parts/copy.tsx'
import { TextAreaField } from '../../parts/field.tsx'
import { EmptyState } from '../../parts/page.tsx'
import type { GridEnvironment } from './cells.ts'
import type { Overlay } from './grid-state.ts'

type EmptyProps = {
  readonly environments: readonly GridEnvironment[]
  readonly canWriteIn: (environmentId: string) => boolean
  readonly open: (overlay: Overlay) => void
}

/** The first step in a new project: paste what one has. */
export function EmptyProject({ environments, canWriteIn, open }: EmptyProps) {
  const [text, setText] = useState('')
  const first = environments.find(({ id }) => canWriteIn(id))
  return (
    <div className="flex-1 overflow-auto px-6">
      {first ? (
        <EmptyState title="No secrets yet">
          <div className="flex flex-col gap-3">
            <p>Paste your .env file, JSON or YAML. You see what it holds before anything is saved.</p>
            <TextAreaField
              label="Your .env file"
              isLabelHidden
              rows={8}
              cols={70}
              placeholder={'DATABASE_URL=postgres://…\nAPI_KEY=…'}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
            <Button
              className="self-start"
              disabled={text.trim() === ''}
              onClick={() => {
                open({ kind: 'import', text })
                setText('')
              }}
            >
              Continue
            </Button>
            <p>Or from your terminal, in the folder of your application:</p>
            <Snippet label="Import from the terminal" text={`coffer import .env -e ${quoted(first.name)}`} />
          </div>
        </EmptyState>
      ) : (
        <EmptyState title="No secrets yet">
          {environments.length > 0
            ? 'Secrets appear here as soon as somebody adds them. You can read them, not write.'
            : 'You have access to no environment of this project. Ask an admin of the workspace.'}
        </EmptyState>
      )}
    </div>
  )
}

const quoted = (name: string) => (/^[\w-]+$/.test(name) ? name : `'${name}'`)
