/** A file of its own: in the bundle, the code that loads the package would be read at every start. */
export { AsyncEntry } from '@napi-rs/keyring'
