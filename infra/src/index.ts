export { METADATA_PASSWORD_VARIABLE } from "./constructs/metadata-database/metadata-database.ts";
export type { PolicyDocument, Statement as PolicyStatement } from "./iam/document.ts";
export { type AccessRequest, isAllowed } from "./iam/evaluation.ts";
export { sessionPolicy } from "./iam/index.ts";
export { checkPolicies, type PolicyContext } from "./policy/index.ts";
export {
  checkClusterStackSpec,
  forbiddenChanges,
  StackSpecError,
} from "./stacks/cluster/check-spec.ts";
export { synthesizeCluster } from "./stacks/cluster/cluster-stack.ts";
export {
  type ClusterNames,
  clusterNames,
  clusterPrefix,
  KAFKA_PORT_BOOTSTRAP,
} from "./stacks/cluster/names.ts";
export { slotTags } from "./stacks/cluster/slot-permissions.ts";
export type {
  BrokerArtefact,
  ClusterStackMode,
  ClusterStackSpec,
  ControlLinkService,
} from "./stacks/cluster/spec.ts";
export {
  type AssumeRole,
  type ImportTarget,
  STACK_FILE,
  type SynthRun,
} from "./synth.ts";
export { ADDRESS_TAG } from "./tagging.ts";
