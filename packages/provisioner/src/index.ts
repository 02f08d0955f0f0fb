export {
  type AttributeChange,
  type ChangePlan,
  changePlan,
  isEmptyPlan,
  type PlannedChange,
  type PlanOptions,
  type PlanPurpose,
  type RunEvent,
  type RunOptions,
  type SweepReport,
} from "./change-plan.ts";
export {
  type BenchmarkOptions,
  type BrokerAccess,
  type ClusterDeployment,
  type ClusterDriver,
  type DriverCapabilities,
  type Observation,
  type Placement,
  ProvisionError,
  type ProvisionErrorCode,
  plaintextAddress,
  type RestartOptions,
  type StartOptions,
} from "./cluster-driver.ts";
export { ClusterDrivers, type ClusterPlanner } from "./cluster-drivers.ts";
export {
  awsAccess,
  type ControlLink,
  type Gateways,
  type LinkCredentials,
} from "./control-link.ts";
export { localAccess } from "./local/local-access.ts";
export { LocalDriver } from "./local/local-driver.ts";
export { type MetadataDatabases, PostgresMetadataDatabases } from "./local/metadata-databases.ts";
export { systemProcessTable } from "./local/process-table.ts";
export { recoveryPlan } from "./recovery-plan.ts";
export {
  StateConflict,
  type StoredState,
  type TerraformStates,
} from "./terraform/terraform-states.ts";
