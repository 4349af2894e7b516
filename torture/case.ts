/** What a case of torture is, what it is given and what it gives back. */
import type { Dice } from '../test/dice.ts'
import type { Settings } from '../test/program.ts'

export type EngineKind = 'sqlite' | 'postgres'
export const bothEngines: readonly EngineKind[] = ['sqlite', 'postgres']

export type Database = { readonly settings: Settings; readonly dataDir: string }

export type Trial = {
  readonly engine: EngineKind
  /** Everything random of a case comes from here: the same seed, the same choices. */
  readonly dice: Dice
  /** How many of those that a full run does are due in this one; at least one. */
  share(full: number): number
  /** Its time is up: what has begun is ended, and nothing new is begun. */
  isOver(): boolean
  progress(text: string): void
  /** Something that must not be. */
  find(what: string): void
  /** A new, empty database on the engine of the trial. */
  createDatabase(): Promise<Database>
  createFolder(): string
  /** Done at the end of the trial, the last one first, also where it fails. */
  onEnd(work: () => unknown): void
}

/** What was done, by its name: `{ kills: 110 }`. */
export type Counts = Record<string, number>

export type Case = {
  readonly name: string
  /** One line for the help. */
  readonly about: string
  readonly engines: readonly EngineKind[]
  /** How long it takes on one engine in a full run, as a share of its time. */
  readonly seconds: number
  /** Why it cannot run here, if so; may install what it needs. */
  unable?(engine: EngineKind): string | undefined
  run(trial: Trial): Promise<Counts>
}
