import { invalid } from '../../failure.ts'

/** Normalises case and Unicode form, so that equal-looking addresses compare equal. */
export function normaliseEmail(email: string): string {
  const normal = email.normalize('NFC').toLowerCase()
  if (normal.length > 254) throw invalid('email', 'is too long.')
  return normal
}
