/**
 * What `upgrade finish` switches on, in the order of its introduction: rules that a node of an earlier version would break
 * without knowing. The register of keys holds how many are on. Only ever append.
 */
export const upgradeSwitches = ['row-set'] as const
export type UpgradeSwitch = (typeof upgradeSwitches)[number]

/** The level of a store with all switches on that this version knows. */
export const newestLevel: number = upgradeSwitches.length

export const isOnAt = (level: number, name: UpgradeSwitch): boolean => upgradeSwitches.indexOf(name) < level
