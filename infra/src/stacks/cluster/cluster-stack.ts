import {
  CLUSTER_TAG,
  ENVIRONMENT_TAG,
  MANAGED,
  MANAGED_TAG,
  TENANT_TAG,
} from "../../iam/document.ts";
import { type SynthRun, synthesize } from "../../synth.ts";
import { type Tags, tagEverything } from "../../tagging.ts";
import { checkClusterStackSpec } from "./check-spec.ts";
import { addDataParts } from "./data-parts.ts";
import { clusterNames } from "./names.ts";
import { addServingParts } from "./serving-parts.ts";
import type { ClusterStackSpec } from "./spec.ts";

/** Labels may contain characters that AWS tags do not allow; they become `_`. */
function tagText(label: string): string {
  return label.replaceAll(/[^\p{L}\p{Z}\p{N}_.:/=+\-@]/gu, "_");
}

/** The tenant's labels never override the tags that a sweep searches for. */
function tagsOf(spec: ClusterStackSpec): Tags {
  const labels = Object.entries(spec.labels);
  return {
    ...Object.fromEntries(labels.map(([name, value]) => [tagText(name), tagText(value)])),
    [TENANT_TAG]: spec.organizationId,
    [ENVIRONMENT_TAG]: spec.environmentId,
    [CLUSTER_TAG]: spec.clusterId,
    [MANAGED_TAG]: MANAGED,
  };
}

/**
 * The Terraform JSON of one tenant's cluster. The same spec and run always give the same text.
 * Throws `StackSpecError` if the spec is invalid.
 */
export function synthesizeCluster(spec: ClusterStackSpec, run: SynthRun): string {
  checkClusterStackSpec(spec);
  const names = clusterNames(spec.clusterId, spec.accountId);
  const tags = tagsOf(spec);
  return synthesize("cluster", spec, run, (stack) => {
    const data = addDataParts(stack, spec, names);
    if (spec.mode === "running" || spec.mode === "paused") {
      addServingParts(stack, spec, names, data, tags);
    }
    tagEverything(stack, tags);
  });
}
