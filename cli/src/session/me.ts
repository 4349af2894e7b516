/** Who the credential belongs to. */
import { type Api, type Me, ResponseError } from '@coffer/sdk'

/** Other services answer with JSON too, if the address is wrong. */
export async function readMe(api: Api): Promise<Me> {
  const me = await api.me.read()
  const { type, scope } = Object(Object(me).credential)
  if (typeof type === 'string' && typeof scope === 'object') return me
  throw new ResponseError('The answer is not that of a Coffer service: check its address.')
}
