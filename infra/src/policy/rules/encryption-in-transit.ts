import { blocks, isTrue, type PolicyDocument, type PolicyResource } from "../document.ts";
import { each, type PolicyRule } from "../rule.ts";

/** Policies of AWS that take TLS 1.2 and 1.3 only. */
const TLS_POLICY = /^ELBSecurityPolicy-TLS13-1-[23]-/;

/** Traffic that leaves a network is encrypted; plain TCP ends at internal load balancers. */
export const encryptionInTransit: PolicyRule = {
  name: "encryption-in-transit",
  check: (document) => [
    ...each(document, ["aws_lb_listener"], (listener) => checkListener(document, listener)),
    ...each(document, ["aws_db_parameter_group"], ({ values }) =>
      blocks(values, "parameter").some(
        ({ name, value }) => name === "rds.force_ssl" && String(value) === "1",
      )
        ? undefined
        : "set the parameter rds.force_ssl to 1",
    ),
    ...each(document, ["aws_db_instance"], (database) =>
      database.references("parameter_group_name").length > 0 ||
      typeof database.values.parameter_group_name === "string"
        ? undefined
        : "name a parameter group with rds.force_ssl = 1",
    ),
    ...each(document, ["aws_ecs_task_definition"], ({ values }) =>
      blocks(values, "volume")
        .flatMap((volume) => blocks(volume, "efs_volume_configuration"))
        .every((efs) => efs.transit_encryption === "ENABLED")
        ? undefined
        : 'set efs_volume_configuration.transit_encryption to "ENABLED"',
    ),
  ],
};

function checkListener(document: PolicyDocument, listener: PolicyResource): string | undefined {
  const { values } = listener;
  if (values.protocol === "HTTPS" || values.protocol === "TLS") {
    return TLS_POLICY.test(String(values.ssl_policy))
      ? undefined
      : "set ssl_policy to one of ELBSecurityPolicy-TLS13-1-2-*";
  }
  if (values.protocol === "HTTP") {
    return redirectsToHttps(values) ? undefined : "redirect plain HTTP to HTTPS";
  }
  const balancers = listener.references("load_balancer_arn");
  const internal = document.resources
    .filter(({ address }) => balancers.includes(address.replace(/\[[^\]]*\]$/, "")))
    .every((balancer) => isTrue(balancer.values.internal));
  return internal ? undefined : "plain TCP on a balancer that faces the internet: use TLS";
}

function redirectsToHttps(values: PolicyResource["values"]): boolean {
  const actions = blocks(values, "default_action");
  return (
    actions.length > 0 &&
    actions.every((action) =>
      blocks(action, "redirect").some((redirect) => redirect.protocol === "HTTPS"),
    )
  );
}
