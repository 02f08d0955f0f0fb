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
