import { useState } from 'react'

export type Action<Args extends readonly unknown[]> = {
  /** True if it succeeded. Calls while one is under way do nothing. */
  readonly run: (...args: Args) => Promise<boolean>
  readonly isBusy: boolean
  readonly error: unknown
  readonly clear: () => void
}

/** A change at the service. Its arguments, which may be passwords or values, are kept nowhere. */
export function useAction<Args extends readonly unknown[]>(work: (...args: Args) => Promise<unknown>): Action<Args> {
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>()

  async function run(...args: Args): Promise<boolean> {
    if (isBusy) return false
    setBusy(true)
    setError(undefined)
    try {
      await work(...args)
      return true
    } catch (cause) {
      setError(cause)
      return false
    } finally {
      setBusy(false)
    }
  }

  return { run, isBusy, error, clear: () => setError(undefined) }
}
