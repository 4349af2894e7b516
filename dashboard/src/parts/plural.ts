/** `plural(2, 'key')` is "2 keys"; pass the plural form where it is not formed with s. */
export const plural = (count: number, one: string, many = `${one}s`) =>
  `${count.toLocaleString('en')} ${count === 1 ? one : many}`
