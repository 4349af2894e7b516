import { idForm } from '@coffer/contract/field'

const form = new RegExp(idForm)

/** True for any text of the form of an id. Ids are stored in lower case, and accepted in either. */
export const isId = (text: string): boolean => form.test(text)
