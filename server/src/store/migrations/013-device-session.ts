/** An approval belongs to the session that gave it and ends with that session. */
export const deviceSession = {
  name: 'device-session',
  statements: [
    `alter table device_login add column session_id text references session (id) on delete cascade`,
    `create index device_login_session on device_login (session_id)`,
  ],
} as const
