import { defineCommand } from '../command.ts'
import { connect } from '../connect.ts'
import { findUrl } from '../place/place.ts'
import { readMe } from '../session/me.ts'

export const whoami = defineCommand({
  usage: '',
  args: [0, 0],
  flags: {},
  details: `
Asks the service who the credential belongs to, and what it may do. With --json the
whole answer, with the scope of a token.`,
  async run(ctx) {
    const me = await readMe(connect(ctx))
    const { type, permission, expiresAt } = me.credential
    ctx.out.show(me, () => ({
      columns: ['email', 'name', 'service', 'credential', 'permission', 'expires'],
      rows: [[me.email, me.name, findUrl(ctx) ?? '', type, permission, expiresAt ?? 'never']],
    }))
  },
})
