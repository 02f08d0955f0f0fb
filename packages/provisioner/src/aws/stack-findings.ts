import { brokersAloneInZone } from "@millrace/domain";
import { type ClusterStackSpec, checkPolicies, type PolicyContext } from "@millrace/infra";
import type { PolicyFinding } from "../change-plan.ts";

interface FindingsContext extends PolicyContext {
  /** Types of resources that the plan shows differently from the stack. */
  readonly ignoredInPlan?: (type: string | undefined) => boolean;
}

/**
 * Policy findings of a stack and its plan. A plan lacks values that AWS assigns later, and a stack does not say
 * what will change. So both are checked, and a finding of both is reported once, as the plan has it.
 */
export function stackFindings(
  planJson: unknown,
  stackText: string,
  { ignoredInPlan = () => false, ...context }: FindingsContext,
): readonly PolicyFinding[] {
  const ofPlan = checkPolicies(planJson, context).filter(
    ({ address }) => !ignoredInPlan(address.split(".")[0]),
  );
  const told = new Set(ofPlan.map(keyOf));
  const ofStack = checkPolicies(stackText, context).filter((each) => !told.has(keyOf(each)));
  return [...ofPlan, ...ofStack];
}

/** What the zones of several brokers mean for a failover; shown with the plan, and no reason to refuse it. */
export function zoneFindings({
  slots,
  zones,
  mode,
}: Pick<ClusterStackSpec, "slots" | "zones" | "mode">): PolicyFinding[] {
  if (slots === 1 || mode !== "running") return [];
  return brokersAloneInZone(slots, zones.length).map((id) => ({
    rule: "alone-in-zone",
    severity: "warning",
    address: `aws_ebs_volume.wal-${id}_volume`,
    message:
      `broker ${id} is the only one in its zone, and its volume cannot be attached in another: where it dies, ` +
      "what it leads waits until its instance is replaced. Two brokers in each zone take over from each other",
  }));
}

function keyOf({ rule, address }: PolicyFinding): string {
  return `${rule} ${address}`;
}
