/** Changes of an environment with such a name are confirmed by typing it. */
export const isProduction = (name: string) => /(^|[ _-])(prod|production|live)($|[ _-])/i.test(name)

/** The name to type before a change of these environments; undefined if none of them is a production environment. */
export const nameToType = (environments: readonly { readonly name: string }[]) =>
  environments.find(({ name }) => isProduction(name))?.name
