/** Server state. Never holds a secret value: pages read values by a direct call and drop them when they are hidden. */
import { notifyManager, QueryClient } from '@tanstack/react-query'

export const queryClient = new QueryClient({
  defaultOptions: {
    // The SDK repeats what is worth repeating.
    queries: { retry: false, staleTime: 15_000, networkMode: 'always' },
    mutations: { retry: false, networkMode: 'always' },
  },
})

// Pages show new data before code that has waited for it goes on: a dialog that waits closes on top of the new state.
notifyManager.setScheduler(queueMicrotask)
