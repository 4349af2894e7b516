/** Points in time: short and local for people, as the API writes them for programs. */
import type { Terminal } from './terminal.ts'

export function formatTime({ stdout }: Terminal, iso: string): string {
  const time = new Date(iso)
  if (stdout.isTTY !== true || Number.isNaN(time.getTime())) return iso
  const two = (number: number) => String(number).padStart(2, '0')
  const date = `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())}`
  return `${date} ${two(time.getHours())}:${two(time.getMinutes())}`
}
