import { defineCommand } from '../command.ts'
import { connect } from '../connect.ts'

export const whoami = defineCommand({
  usage: '',
  args: [0, 0],
  flags: {},
  async run(ctx) {
    const me = await connect(ctx).me.read()
    ctx.out.show(me, () => ({ columns: ['email', 'name'], rows: [[me.email, me.name]] }))
  },
})
