/** Types for the part of autocannon used here: the package ships none. */
declare module 'autocannon' {
  type Sent = {
    readonly path?: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
  }
  type Options = Sent & {
    readonly url: string
    readonly method: string
    readonly connections: number
    readonly duration?: number
    readonly amount?: number
    readonly requests?: readonly { setupRequest(request: Sent): Sent }[]
  }
  type Outcome = {
    readonly start: Date
    readonly errors: number
    readonly timeouts: number
    readonly '4xx': number
    readonly '5xx': number
  }
  type Running = Promise<Outcome> & {
    on(event: 'response', listener: (client: unknown, status: number, bytes: number, ms: number) => void): void
  }
  export default function autocannon(options: Options): Running
}
