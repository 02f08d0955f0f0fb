export type { AuditFilter, ChainHead, NewChainCheck } from "./audit-repository.ts";
export { type PhaseChange, PlacementTaken } from "./cluster-repository.ts";
export { RoleUnconfined } from "./confinement.ts";
export {
  type Database,
  type IdentityStore,
  openDatabase,
  type Repositories,
  type SignIn,
  type TenantDatabase,
  type Transaction,
} from "./database.ts";
export type { Fleet } from "./fleet.ts";
export type {
  GatewayIdentity,
  GatewayRepository,
  HeldLink,
  LinkHolder,
  LostLink,
  NewLink,
} from "./gateway-repository.ts";
export type { IdempotentRequest } from "./idempotency-repository.ts";
export type { MetricReadings } from "./metric-repository.ts";
export {
  type Fence,
  LeaseLost,
  type LogLine,
  type OperationJournal,
  type StepChange,
  type UnclaimedOperation,
} from "./operation-journal.ts";
export type { Cursor } from "./page.ts";
export { PlatformOperatorRefused, PlatformOperators } from "./platform-operators.ts";
export type {
  ActiveImpersonation,
  NewImpersonation,
  PlatformOrganization,
} from "./platform-repository.ts";
export type { RateLimitRepository } from "./rate-limit-repository.ts";
export type { Resealed, SecondFactorRepository } from "./second-factor-repository.ts";
export type { NewSsoConnection, StoredSsoConnection } from "./sso-connection-repository.ts";
export { StateVersionTaken } from "./terraform-state-repository.ts";
