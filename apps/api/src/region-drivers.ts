import type { RegionDrivers } from "@millrace/core";
import { type ClusterPlanner, type ControlLink, LocalDriver } from "@millrace/provisioner";
import type { OfflinePlanner } from "@millrace/provisioner/aws";
import type { Environment } from "./env.ts";

type PlanningEnvironment = Pick<
  Environment,
  | "MILLRACE_HOME"
  | "MILLRACE_BROKER_BIN"
  | "MILLRACE_TERRAFORM_BIN"
  | "MILLRACE_TERRAFORM_MIRROR"
  | "MILLRACE_AWS_PROVIDER_VERSION"
  | "MILLRACE_AWS_ROLE_ARN"
  | "MILLRACE_AWS_REGION"
  | "MILLRACE_LOCAL_CLUSTERS"
  | "GOGC"
  | "PATH"
  | "HOME"
>;

/** This program plans; what is planned is carried out by the worker. */
export function regionDrivers(env: PlanningEnvironment, link?: ControlLink): RegionDrivers {
  const program = {
    bin: env.MILLRACE_TERRAFORM_BIN,
    mirror: env.MILLRACE_TERRAFORM_MIRROR,
    path: env.PATH,
    home: env.HOME,
    credentials: {},
    gogc: env.GOGC,
  };
  return {
    // Only the worker starts brokers; here the program plans recoveries.
    local: new LocalDriver({
      home: env.MILLRACE_HOME,
      program: { command: [env.MILLRACE_BROKER_BIN], environment: { PATH: env.PATH } },
      // A plan is that of the worker, whose brokers have a control link.
      link,
    }),
    awsPlanner: awsPlanner({ program, providerVersion: env.MILLRACE_AWS_PROVIDER_VERSION }),
    localAvailable: env.MILLRACE_LOCAL_CLUSTERS === "1",
    awsRegion: env.MILLRACE_AWS_ROLE_ARN === undefined ? undefined : env.MILLRACE_AWS_REGION,
  };
}

/** Loaded with the first plan: what stands behind it is larger than all the rest of this program. */
function awsPlanner(options: ConstructorParameters<typeof OfflinePlanner>[0]): ClusterPlanner {
  let planner: Promise<OfflinePlanner> | undefined;
  return {
    async plan(deployment, planOptions) {
      planner ??= import("@millrace/provisioner/aws").then(
        (module) => new module.OfflinePlanner(options),
      );
      return (await planner).plan(deployment, planOptions);
    },
  };
}
