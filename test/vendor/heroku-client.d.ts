/** The vendor's client ships no types. */
declare module 'heroku-client' {
  export default class Heroku {
    constructor(options: { token: string | undefined; host: string })
    get(path: string): Promise<unknown>
    patch(path: string, options: { body: unknown }): Promise<unknown>
  }
}
