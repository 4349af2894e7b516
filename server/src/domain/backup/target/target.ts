/** A place for backups: a folder, or a bucket of an S3 service. Whatever lies there besides backups is left alone. */

export type StoredFile = {
  readonly name: string
  readonly bytes: number
  /** When the backup was begun, as its name says. */
  readonly at: number
}

export type TargetOptions = { readonly signal?: AbortSignal }

export type TransferOptions = TargetOptions & {
  /** Bytes that have arrived so far, out of all. */
  readonly onProgress?: (done: number, total: number) => void
}

export type BackupTarget = {
  /** For people: without credentials. */
  readonly name: string
  /** Throws unless a backup could be stored, as far as that shows without writing. */
  check(options?: TargetOptions): Promise<void>
  /** Backups, and markers of verified ones; the oldest first. */
  list(options?: TargetOptions): Promise<StoredFile[]>
  /** Size of the file as the target lists it, whatever its name; undefined if there is none. */
  findBytes(name: string, options?: TargetOptions): Promise<number | undefined>
  /**
   * Stores the staged file, whole or not at all. An upload that was cut off goes on where it stopped. The staged file
   * stays.
   */
  put(name: string, stagedFile: string, options?: TransferOptions): Promise<void>
  /** The text of a small file. A larger one is refused, and never held in memory or on the disk. */
  read(name: string, maxBytes: number, options?: TargetOptions): Promise<string>
  /**
   * Writes the file durably, under its name only once it is complete. `bytes` is its size in the list: a file of another
   * size is refused.
   */
  download(name: string, file: string, bytes: number, options?: TransferOptions): Promise<void>
  /** Does nothing if the file is gone already. */
  remove(name: string, options?: TargetOptions): Promise<void>
  /** Removes unfinished transfers into the target that began before this time, except those of the given names. */
  dropUnfinished(beforeMs: number, except: ReadonlySet<string>, options?: TargetOptions): Promise<void>
}

/** A problem of a target that the operator can fix. The message is one sentence without credentials. */
export class TargetError extends Error {}

export function byAge(one: StoredFile, other: StoredFile): number {
  return one.at - other.at || (one.name < other.name ? -1 : 1)
}
