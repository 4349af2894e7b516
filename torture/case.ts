/** The contract of a torture case: its inputs and its results. */
import type { Dice } from '../test/dice.ts'
import type { Settings } from '../test/program.ts'

export type EngineKind = 'sqlite' | 'postgres'
export const bothEngines: readonly EngineKind[] = ['sqlite', 'postgres']

export type Database = { readonly settings: Settings; readonly dataDir: string }

export type Trial = {
  readonly engine: EngineKind
  /** A checkout of the version before, if the run has one. */
  readonly previous: string | undefined
  /** The only source of randomness in a case: the same seed makes the same choices. */
  readonly dice: Dice
  /** Scales the count of a full run to the length of this one; at least 1. */
  scale(full: number): number
  /** True when the time is up: finish the current step and start no other. */
  isOver(): boolean
  progress(text: string): void
  /** Records a violation. */
  report(finding: string): void
  /** A new, empty database on the trial's engine. */
  createDatabase(): Promise<Database>
  createFolder(): string
  /** Runs at the end of the trial, in reverse order, also after a failure. */
  onEnd(work: () => unknown): void
}

/** Number of operations by name: `{ kills: 110 }`. */
export type Counts = Record<string, number>

export type Case = {
  readonly name: string
  /** One line for the help. */
  readonly about: string
  readonly engines: readonly EngineKind[]
  /** Duration on one engine in a full run; time is divided in proportion to it. */
  readonly seconds: number
  /** The reason why the case cannot run here, if any; may install what it needs. */
  unable?(engine: EngineKind): string | undefined
  run(trial: Trial): Promise<Counts>
}
