/** Stops the start with one sentence that says what to do. It has no cause, since a cause might hold the key. */
export class MasterKeyError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'MasterKeyError'
  }
}

/** The master key is split, and nobody handed in a share, as in a nightly run. */
export class NoSharesError extends MasterKeyError {}
