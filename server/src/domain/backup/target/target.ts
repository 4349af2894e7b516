/** A place for backups: a folder, or a bucket of an S3 service. Whatever lies there besides backups is left alone. */

export type StoredFile = {
  readonly name: string
  readonly bytes: number
  /** When the backup was begun, as its name says. */
  readonly at: number
}

export type TransferOptions = {
  /** Bytes that have arrived so far, out of all. */
  readonly onProgress?: (done: number, total: number) => void
  readonly signal?: AbortSignal
}

export type BackupTarget = {
  /** For people: without credentials. */
  readonly name: string
  /** Backups, and markers of verified ones; the oldest first. */
  list(): Promise<StoredFile[]>
  /**
   * Stores the staged file, whole or not at all. An upload that was cut off goes on where it stopped. The staged file
   * stays.
   */
  put(name: string, stagedFile: string, options?: TransferOptions): Promise<void>
  /** Writes the file durably, under its name only once it is complete. */
  download(name: string, file: string, options?: TransferOptions): Promise<void>
  /** Does nothing if the file is gone already. */
  remove(name: string): Promise<void>
  /** Removes unfinished transfers into the target that began before this time, except those of the given names. */
  dropUnfinished(beforeMs: number, except: ReadonlySet<string>): Promise<void>
}

/** A problem of a target that the operator can fix. The message is one sentence without credentials. */
export class TargetError extends Error {}

export function byAge(one: StoredFile, other: StoredFile): number {
  return one.at - other.at || (one.name < other.name ? -1 : 1)
}
