import { invalid } from '../../failure.ts'

/** Addresses are compared without regard to case and to the many ways of writing one character. */
export function normaliseEmail(email: string): string {
  const normal = email.normalize('NFC').toLowerCase()
  if (normal.length > 254) throw invalid('email', 'is too long.')
  return normal
}
