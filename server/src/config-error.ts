/** An invalid setting. The message is one sentence that names it, and never quotes what may be a secret. */
export class ConfigError extends Error {}
