import { type Attributes, blocks, list } from "../document.ts";
import { each, type PolicyRule } from "../rule.ts";

/** Only listeners requested as public are open to the world. */
export const openIngress: PolicyRule = {
  name: "open-ingress",
  check: (document, context) =>
    each(
      document,
      ["aws_security_group", "aws_security_group_rule", "aws_vpc_security_group_ingress_rule"],
      (resource) => {
        if (context.publicIngress?.includes(resource.address)) return undefined;
        const rules = ingressRules(resource.type, resource.values);
        const open = rules.flatMap(cidrsOf).filter(isWorld);
        return open.length === 0
          ? undefined
          : `admits ${[...new Set(open)].join(" and ")}: name the networks, or ask for a public listener`;
      },
    ),
};

function ingressRules(type: string, values: Attributes): readonly Attributes[] {
  if (type === "aws_security_group") return blocks(values, "ingress");
  if (type === "aws_security_group_rule" && values.type !== "ingress") return [];
  return [values];
}

function cidrsOf(rule: Attributes): string[] {
  return ["cidr_blocks", "ipv6_cidr_blocks", "cidr_ipv4", "cidr_ipv6"]
    .flatMap((attribute) => list(rule[attribute]))
    .filter((cidr) => typeof cidr === "string");
}

/** The whole internet, or so much of it (up to a /7) that naming halves of it changes nothing. */
function isWorld(cidr: string): boolean {
  const bits = Number(cidr.split("/")[1] ?? Number.NaN);
  return bits < (cidr.includes(":") ? 16 : 8);
}
