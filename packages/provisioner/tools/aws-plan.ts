/**
 * `npm run aws:plan -- --example`: the resources of a cluster on AWS, its cost, and whether it passes the policy.
 * Needs Terraform and its AWS provider, but no account.
 *
 * Exits with 0 if the plan may be applied, 1 if the policy or the spec forbids it, 2 for a wrong command line.
 */
import { homedir } from "node:os";
import { parseArgs } from "node:util";
import { awsSizing, estimateMonthly, walVolumeWarnings } from "@millrace/domain";
import { OfflinePlanner } from "../src/aws/offline-planner.ts";
import { ProvisionError } from "../src/cluster-driver.ts";
import {
  type AwsDeploymentFile,
  deploymentOf,
  EXAMPLE,
  InvalidClusterFile,
  readClusterFile,
} from "./cluster-file.ts";
import { costText, planText, policyText, warningsText } from "./plan-report.ts";

const USAGE = `npm run aws:plan -- --example           a cluster of three brokers over three zones
npm run aws:plan -- --spec cluster.json your own, in the words of the REST API: region, size,
                                        brokers, zones, wal, network, storage, labels
  --json                                plan, cost, policy and warnings as JSON
Terraform is taken from MILLRACE_TERRAFORM_BIN or PATH, its AWS provider from the folder
MILLRACE_TERRAFORM_MIRROR or the registry.`;

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      example: { type: "boolean", default: false },
      spec: { type: "string" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help || values.example === (values.spec !== undefined)) {
    console.error(USAGE);
    return values.help ? 0 : 2;
  }
  const file = values.spec === undefined ? EXAMPLE : readClusterFile(values.spec);
  const deployment = deploymentOf(file);
  const { plan } = await plannerOf().planWithJson(deployment, {
    purpose: deployment.paused ? "pause" : "apply",
    offline: true,
  });
  const { region, size, brokers, paused, aws } = deployment;
  const cost = estimateMonthly({
    ...{ region, size, brokers, paused, aws, zones: aws.zones.length, retained: false },
  });
  const warnings = warningsOf(deployment);
  if (values.json) {
    console.log(JSON.stringify({ plan, cost, policy: plan.findings, warnings }, null, 2));
  } else {
    const title = `${deployment.name}: ${size}, ${brokers} broker slot(s), ${aws.zones.join(", ")}`;
    const parts = [title, planText(plan), costText(cost), policyText(plan)];
    if (warnings.length > 0) parts.push(warningsText(warnings));
    console.log(parts.join("\n\n"));
  }
  return plan.findings.some(({ severity }) => severity === "error") ? 1 : 0;
}

function plannerOf(): OfflinePlanner {
  const { env } = process;
  return new OfflinePlanner({
    program: {
      bin: env.MILLRACE_TERRAFORM_BIN || "terraform",
      mirror: env.MILLRACE_TERRAFORM_MIRROR || undefined,
      path: env.PATH ?? "",
      home: homedir(),
      credentials: {},
      gogc: env.GOGC,
    },
    providerVersion: env.MILLRACE_AWS_PROVIDER_VERSION || undefined,
  });
}

function warningsOf({ size, aws }: AwsDeploymentFile): string[] {
  return walVolumeWarnings(aws.wal, awsSizing(size).instance);
}

try {
  process.exitCode = await main();
} catch (error) {
  const known =
    error instanceof InvalidClusterFile ||
    error instanceof ProvisionError ||
    (error instanceof TypeError && "code" in error);
  if (!known) throw error;
  console.error(`aws:plan: ${error.message}`);
  process.exitCode = error instanceof TypeError || error instanceof InvalidClusterFile ? 2 : 1;
}
