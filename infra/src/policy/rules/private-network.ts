import { blocks, isTrue } from "../document.ts";
import { each, type PolicyRule } from "../rule.ts";

/** A tenant's brokers have no way in from the internet: no gateway, no public address. */
export const privateNetwork: PolicyRule = {
  name: "private-network",
  check: (document, { kind }) =>
    kind === "control-plane"
      ? []
      : [
          ...each(
            document,
            ["aws_internet_gateway", "aws_nat_gateway", "aws_eip"],
            () => "a cluster's network has no way to the internet: use endpoints",
          ),
          ...each(document, ["aws_lb"], ({ values }) =>
            isTrue(values.internal) ? undefined : "set internal to true",
          ),
          ...each(document, ["aws_subnet"], ({ values }) =>
            values.map_public_ip_on_launch === true
              ? "set map_public_ip_on_launch to false"
              : undefined,
          ),
          ...each(document, ["aws_launch_template"], ({ values }) =>
            blocks(values, "network_interfaces").some((card) =>
              [true, "true"].includes(card.associate_public_ip_address as boolean),
            )
              ? "set network_interfaces.associate_public_ip_address to false"
              : undefined,
          ),
        ],
};
