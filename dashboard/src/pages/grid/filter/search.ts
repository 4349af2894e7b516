/** Fields of the grid's address. */
export const gridFields = ['q', 'missing', 'differs', 'show', 'since', 'key', 'environment'] as const
/** `differs` is two environment names with a comma between; `key` and `environment` name a cell to go to. */
export type GridSearch = Partial<Record<(typeof gridFields)[number], string>>
