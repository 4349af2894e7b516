/** Stops a start or a command with one sentence that says what to do. */
export class StartError extends Error {}
