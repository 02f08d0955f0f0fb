export {
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
export type { BrokerProgram } from "./local/broker-process.ts";
export { LocalDriver, type LocalDriverOptions, localAccess } from "./local/local-driver.ts";
export type { PortRange } from "./local/ports.ts";
export {
  type ProcessIdentity,
  type ProcessTable,
  systemProcessTable,
} from "./local/process-table.ts";
