/** A plan for a terminal: by resource, with its cost and the policy's findings. */
import { type CostEstimate, nounOf, PLAN_NOUNS } from "@millrace/domain";
import type { ChangePlan, PlannedChange } from "../src/index.ts";

/** What is asked for and not forbidden, and still worth a thought. One sentence each. */
export type Warnings = readonly string[];

const SIGNS: Record<PlannedChange["action"], string> = {
  create: "+",
  update: "~",
  replace: "±",
  delete: "-",
  read: "<",
  import: "→",
};

/** Attributes that identify a resource among its kind; `--json` has all of them. */
const TELLING: Readonly<Record<string, readonly string[]>> = {
  aws_autoscaling_group: ["desired_capacity", "health_check_type"],
  aws_cloudwatch_log_group: ["name", "retention_in_days"],
  aws_cloudwatch_metric_alarm: ["metric_name", "threshold"],
  aws_db_instance: ["instance_class", "multi_az", "allocated_storage", "storage_encrypted"],
  aws_ebs_volume: ["availability_zone", "type", "size", "iops", "throughput", "encrypted"],
  aws_iam_role: ["name", "permissions_boundary"],
  aws_kms_alias: ["name"],
  aws_kms_key: ["enable_key_rotation", "deletion_window_in_days"],
  aws_launch_template: [
    "instance_type",
    "metadata_options[0].http_tokens",
    "metadata_options[0].http_put_response_hop_limit",
  ],
  aws_lb: ["load_balancer_type", "internal"],
  aws_lb_listener: ["port", "protocol"],
  aws_lb_target_group: ["port", "health_check[0].path"],
  aws_route53_record: ["name", "type"],
  aws_route53_zone: ["name"],
  aws_s3_bucket: ["bucket", "force_destroy"],
  aws_s3_bucket_lifecycle_configuration: [
    "rule[0].abort_incomplete_multipart_upload[0].days_after_initiation",
  ],
  aws_s3_bucket_server_side_encryption_configuration: [
    "rule[0].apply_server_side_encryption_by_default[0].sse_algorithm",
  ],
  aws_secretsmanager_secret: ["name"],
  aws_subnet: ["availability_zone", "cidr_block"],
  aws_vpc: ["cidr_block"],
  aws_vpc_endpoint: ["service_name", "vpc_endpoint_type"],
  aws_vpc_security_group_egress_rule: ["description", "from_port", "to_port"],
  aws_vpc_security_group_ingress_rule: ["description", "cidr_ipv4", "from_port", "to_port"],
};

export function planText(plan: ChangePlan): string {
  const groups = PLAN_NOUNS.flatMap((noun) => {
    const changes = plan.changes.filter(({ type }) => nounOf(type) === noun);
    if (changes.length === 0) return [];
    return [`${noun} (${changes.length})`, ...changes.map(changeLine), ""];
  });
  const { create, update, replace, delete: deleted } = plan.summary;
  const summary = `Plan: ${create} to create, ${update} to change, ${replace} to replace, ${deleted} to delete.`;
  return [...groups, summary].join("\n");
}

function changeLine({ address, type, action, attributes }: PlannedChange): string {
  const told = (TELLING[type] ?? []).flatMap((name) => {
    const attribute = attributes.find((candidate) => candidate.name === name);
    const value = attribute?.after ?? attribute?.before;
    const short = name.slice(name.lastIndexOf(".") + 1);
    return value === undefined || value === null ? [] : [`${short}=${value}`];
  });
  return `  ${SIGNS[action]} ${address.padEnd(58)} ${told.join("  ")}`.trimEnd();
}

const AMOUNTS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
const DOLLARS = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD" });

export function costText(cost: CostEstimate): string {
  const rows = cost.lines.map((line) => [line.item, ...priced(line), DOLLARS.format(line.monthly)]);
  const total = ["Total", "", "", DOLLARS.format(cost.total)];
  const table = aligned([...rows, total]);
  return [
    `Estimated monthly cost in USD, list prices of ${cost.asOf}`,
    ...table.map((row) => `  ${row}`),
    ...cost.assumptions.map((assumption) => `  · ${assumption}`),
  ].join("\n");
}

/** Quantity and price. A price for 1000 is told as that, beside the number of single ones. */
function priced({ quantity, unit, unitPrice }: CostEstimate["lines"][number]): [string, string] {
  const [, thousand] = /^1000 (.*)/.exec(unit) ?? [];
  if (thousand === undefined) return [`${AMOUNTS.format(quantity)} ${unit}`, `× ${unitPrice}`];
  return [`${AMOUNTS.format(quantity * 1000)} ${thousand}`, `× ${unitPrice} per 1,000`];
}

/** The first column to the left, the others to the right. */
function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return column === 0 ? cell.padEnd(width) : cell.padStart(width);
      })
      .join("  "),
  );
}

export function policyText({ findings }: ChangePlan): string {
  if (findings.length === 0) return "Policy: all checks passed.";
  const lines = findings.map(
    ({ severity, rule, address, message }) => `  ${severity} ${rule} ${address}: ${message}`,
  );
  return [`Policy: ${findings.length} found`, ...lines].join("\n");
}

export function warningsText(warnings: Warnings): string {
  return ["Notes", ...warnings.map((warning) => `  · ${warning}`)].join("\n");
}
