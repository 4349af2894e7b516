/** Comes without types. */
declare module 'jsonapi-validator' {
  export class Validator {
    isValid(document: unknown): boolean
  }
}
