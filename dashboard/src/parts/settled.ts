import { useEffect, useState } from 'react'

const pauseMs = 250

/** A text once typing pauses: a request for every letter would use up the rate limit. */
export function useSettled(text: string): string {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), pauseMs)
    return () => clearTimeout(timer)
  }, [text])
  return settled
}
