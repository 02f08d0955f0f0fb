export type { NewApiKey } from "./api-key-repository.ts";
export {
  type NewCluster,
  type PhaseChange,
  PlacementTaken,
  type SpecChange,
} from "./cluster-repository.ts";
export {
  type Database,
  type DatabaseOptions,
  type IdentityStore,
  openDatabase,
  type Repositories,
  type Transaction,
} from "./database.ts";
export type {
  Begun,
  IdempotencyScope,
  IdempotentRequest,
  StoredResponse,
} from "./idempotency-repository.ts";
export type { TimeRange } from "./metric-repository.ts";
export { migrate } from "./migrate.ts";
export {
  type Fence,
  LeaseLost,
  type LogLine,
  type OperationJournal,
  type Outcome,
  type StepChange,
  type UnclaimedOperation,
} from "./operation-journal.ts";
export type { StoredPlan } from "./operation-plan-repository.ts";
export type { MembershipWithOrganization } from "./organization-repository.ts";
export type { Cursor, Page, PageRequest } from "./page.ts";
export { type SealedState, StateVersionTaken } from "./terraform-state-repository.ts";
export type { NewTuningChange } from "./tuning-repository.ts";
