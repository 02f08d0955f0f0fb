import { checkPolicies, type PolicyContext } from "@millrace/infra";
import type { PolicyFinding } from "../change-plan.ts";

interface FindingsContext extends PolicyContext {
  /** Types of resources that the plan shows otherwise than the stack has them. */
  readonly ignoredInPlan?: (type: string | undefined) => boolean;
}

/**
 * What is wrong with a stack and its plan. A plan does not know what AWS will only tell, and a stack
 * does not say what will happen: both are checked, and a finding of both is reported once, as the plan has it.
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

function keyOf({ rule, address }: PolicyFinding): string {
  return `${rule} ${address}`;
}
