export { type PhaseChange, PlacementTaken } from "./cluster-repository.ts";
export { type Database, openDatabase, type Transaction } from "./database.ts";
export type { IdempotentRequest } from "./idempotency-repository.ts";
export { migrate } from "./migrate.ts";
export {
  type Fence,
  LeaseLost,
  type LogLine,
  type OperationJournal,
  type StepChange,
  type UnclaimedOperation,
} from "./operation-journal.ts";
export type { Cursor } from "./page.ts";
export { type SealedState, StateVersionTaken } from "./terraform-state-repository.ts";
export type { NewTuningChange } from "./tuning-repository.ts";
