/** What a select offers, where the vendor is asked for it. */
import { isFault } from './fault.ts'
import type { Connection, Option } from './provider.ts'

type Offer = (connection: Connection) => Promise<readonly Option[] | undefined>

/** A credential that may write but not list is a good one: the person types what cannot be offered. */
export function offering(list: (connection: Connection) => AsyncIterable<Option>): Offer {
  return async (connection) => {
    try {
      return await Array.fromAsync(list(connection))
    } catch (error) {
      if (isFault(error, 'scope')) return undefined
      throw error
    }
  }
}
