import { BrokerError, type BrokerSettings } from "@millrace/broker-admin";
import {
  type AclDecision,
  type AclQuestion,
  type AclSettings,
  type ClusterId,
  decideAcl,
  type Principal,
} from "@millrace/domain";
import { atBroker } from "../broker-failure.ts";
import { requireServingCluster } from "../cluster/require-cluster.ts";
import type { Core } from "../core.ts";

export interface TestAclInput {
  readonly clusterId: ClusterId;
  readonly question: AclQuestion;
}

/**
 * What the broker would decide, and by which rule. The rules and the settings are the broker's own; they are
 * evaluated here in its order. Throws `not_found`, `cluster_not_ready`, `broker_unavailable`.
 */
export async function testAcl(
  core: Core,
  principal: Principal,
  { clusterId, question }: TestAclInput,
): Promise<AclDecision> {
  const cluster = await requireServingCluster(core, principal, clusterId);
  const { resourceType, resourceName } = question;
  return atBroker(undefined, async () => {
    const broker = await core.brokerHttp(cluster);
    const settings = aclSettingsOf(await broker.settings());
    const filter = { resourceType, resourceName, patternType: "match" } as const;
    const acls = await broker.listAcls(filter).catch((error) => {
      if (error instanceof BrokerError && error.code === "authorization_off") return undefined;
      throw error;
    });
    return decideAcl(question, acls ?? [], { ...settings, enabled: acls !== undefined });
  });
}

/** The properties by Kafka's names; `super.users` is a list with semicolons. */
function aclSettingsOf(settings: BrokerSettings): Omit<AclSettings, "enabled"> {
  const names = settings.get("super.users")?.value ?? "";
  const superUsers = new Set(names.split(";").map((name) => name.trim()));
  const allowIfNoAcl = settings.get("allow.everyone.if.no.acl.found")?.value === "true";
  return { superUsers, allowIfNoAcl };
}
