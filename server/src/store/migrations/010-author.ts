/**
 * Who wrote a value that refers to other environments: what is handed on in somebody else's name leads no further than
 * its authors may read. Part of what the seal is bound to; empty for values that refer to none, and for older ones.
 */
export const author = {
  name: 'author',
  statements: [
    `alter table secret_value add column authors text not null default ''`,
    `alter table secret_version add column authors text not null default ''`,
  ],
} as const
