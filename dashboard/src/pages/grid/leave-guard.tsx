import { useBlocker } from '@tanstack/react-router'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { plural } from '../../parts/plural.ts'
import { hasOpenText } from './edit/open-text.ts'

/** Asks before unsaved changes are lost: by a link, by Back, and by closing the tab. */
export function LeaveGuard({ count }: { readonly count: number }) {
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: ({ current, next }) => (count > 0 || hasOpenText()) && current.pathname !== next.pathname,
    enableBeforeUnload: () => count > 0 || hasOpenText(),
    withResolver: true,
  })
  const actions = (
    <>
      <Button kind="danger" onClick={() => proceed?.()}>
        Leave without saving
      </Button>
      <Button kind="primary" onClick={() => reset?.()}>
        Stay
      </Button>
    </>
  )
  return (
    <Dialog
      title="Leave without saving?"
      isOpen={status === 'blocked'}
      onClose={() => reset?.()}
      description={
        count > 0
          ? `${plural(count, 'change is', 'changes are')} not saved and would be lost.`
          : 'The text in the editor is not saved and would be lost.'
      }
      actions={actions}
    />
  )
}
