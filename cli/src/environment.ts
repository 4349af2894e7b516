/** The variables of the process. */
export type Environment = Readonly<Record<string, string | undefined>>

/** `CI=false` and `CI=0` mean no. */
export const isSet = (value: string | undefined): boolean =>
  value !== undefined && !['', '0', 'false', 'no', 'off'].includes(value.toLowerCase())
