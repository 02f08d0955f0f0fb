export type { AwsAccountSettings, AwsCredentials } from "./aws/aws-account.ts";
export { AwsDriver, type AwsDriverOptions } from "./aws/aws-driver.ts";
export {
  type OfflinePlan,
  OfflinePlanner,
  type OfflinePlannerOptions,
} from "./aws/offline-planner.ts";
export {
  type AttributeChange,
  type ChangeAction,
  type ChangePlan,
  type ChangeSummary,
  changePlan,
  isEmptyPlan,
  type PlannedChange,
  type PlanOptions,
  type PlanPurpose,
  type PolicyFinding,
  type RunEvent,
  type RunEventKind,
  type RunFence,
  type RunOptions,
  type SweepReport,
  type SweptResource,
} from "./change-plan.ts";
export {
  type AwsDeployment,
  adminUrlOf,
  type BrokerAccess,
  bootstrapServersOf,
  type ClusterDeployment,
  type ClusterDriver,
  type Observation,
  type Placement,
  ProvisionError,
  type ProvisionErrorCode,
  type WaitOptions,
} from "./cluster-driver.ts";
export { type ClusterDriverSet, ClusterDrivers, type ClusterPlanner } from "./cluster-drivers.ts";
export type { BrokerProgram } from "./local/broker-process.ts";
export { LocalDriver, type LocalDriverOptions, localAccess } from "./local/local-driver.ts";
export type { PortRange } from "./local/ports.ts";
export {
  type ProcessIdentity,
  type ProcessTable,
  systemProcessTable,
} from "./local/process-table.ts";
export {
  fileWrappingKey,
  kmsWrappingKey,
  StateSeal,
  type WrappingKey,
} from "./terraform/state-seal.ts";
export type { TerraformProgram } from "./terraform/terraform-program.ts";
export {
  StateConflict,
  type StoredState,
  type TerraformStates,
} from "./terraform/terraform-states.ts";
