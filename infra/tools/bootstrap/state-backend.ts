import { controlPlaneNames } from "../../src/stacks/control-plane/names.ts";
import type { BootstrapRequest } from "./plan-request.ts";

const STATE_KEY = "control-plane/terraform.tfstate";

/**
 * The stack with its state in the installation's own bucket: versioned, encrypted with its key, and
 * locked by a file beside it. The bucket is made by the stack's foundation, whose first state is a
 * file on this machine and moves into it.
 */
export function withBucketBackend(stack: string, request: BootstrapRequest): string {
  const document = JSON.parse(stack) as { terraform: Record<string, unknown> };
  const { spec, endpoint } = request;
  document.terraform.backend = {
    s3: {
      bucket: controlPlaneNames(spec).artefactBucket,
      key: STATE_KEY,
      region: spec.region,
      encrypt: true,
      use_lockfile: true,
      ...(endpoint === undefined
        ? {}
        : {
            endpoints: { s3: endpoint, sts: endpoint, iam: endpoint },
            use_path_style: true,
            access_key: "none",
            secret_key: "none",
            skip_metadata_api_check: true,
            skip_region_validation: true,
          }),
    },
  };
  return JSON.stringify(document, null, 2);
}
