/** Secrets whose names make programs run other code, or are no names of variables: `coffer run` leaves them out. */
import { describeLeftOut, type LeftOut, whyNoVariable } from '@coffer/sdk'
import { useMemo } from 'react'
import { Note } from '../../parts/note.tsx'

/** A sentence for a person who creates or renames a secret; undefined if it becomes a variable. */
export function warnOfName(name: string): string | undefined {
  const why = name === '' ? undefined : whyNoVariable(name)
  return why && `${capital(why)}: coffer run, and exports for shells and pipelines, leave this secret out.`
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

const maxListed = 10

export function NoVariables({ names }: { readonly names: readonly string[] }) {
  const leftOut = useMemo(() => listNoVariables(names), [names])
  if (leftOut.length === 0) return null
  const more = leftOut.length - maxListed
  return (
    <div className="px-6 pb-3">
      <Note tone="warn">
        coffer run, and exports for shells and pipelines, leave out: {describeLeftOut(leftOut.slice(0, maxListed))}
        {more > 0 ? ` and ${more} more` : ''}.
      </Note>
    </div>
  )
}

function listNoVariables(names: readonly string[]): LeftOut[] {
  return names.flatMap((name) => {
    const why = whyNoVariable(name)
    return why === undefined ? [] : [{ name, why }]
  })
}
