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
  type DriverCapabilities,
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
export { recoveryPlan } from "./recovery-plan.ts";
export {
  StateConflict,
  type StoredState,
  type TerraformStates,
} from "./terraform/terraform-states.ts";
