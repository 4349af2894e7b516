/**
 * Authors of a value that refers to other environments: a value delegated to someone else resolves only what its
 * authors may read. Bound into the seal; empty for values without such references, and for older ones.
 */
export const author = {
  name: 'author',
  statements: [
    `alter table secret_value add column authors text not null default ''`,
    `alter table secret_version add column authors text not null default ''`,
  ],
} as const
