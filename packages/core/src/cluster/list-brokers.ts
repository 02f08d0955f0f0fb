import { BrokerError } from "@millrace/broker-admin";
import {
  type BrokerLink,
  type BrokerReport,
  brokerIdsOf,
  type Cluster,
  type ClusterId,
  type ClusterMember,
  type ClusterMembers,
  isServing,
  type MemberEvent,
  type Principal,
} from "@millrace/domain";
import type { Core } from "../core.ts";
import { getCluster } from "./get-cluster.ts";

/** Events that are shown; brokers keep more. */
const EVENTS_MAX = 200;

/** One broker, as far as it is known now. */
export interface BrokerView {
  readonly brokerId: number;
  /** As the brokers of the cluster see it; undefined for one that is alone, and while none answers. */
  readonly member: ClusterMember | undefined;
  /** What it says of itself; undefined while it does not answer. */
  readonly report: BrokerReport | undefined;
  readonly link: BrokerLink | undefined;
}

export interface BrokersView {
  readonly cluster: Cluster;
  /** By id. */
  readonly brokers: readonly BrokerView[];
  /** What happened to them, newest first; nothing of a broker that is alone. */
  readonly events: readonly MemberEvent[];
}

interface Told {
  readonly reports: readonly BrokerReport[];
  readonly members: ClusterMembers;
}

const NOTHING: Told = { reports: [], members: { members: [], events: [] } };

/** The brokers of a cluster, whatever its phase. Throws `not_found`, `rate_limited`. */
export async function listBrokers(
  core: Core,
  principal: Principal,
  id: ClusterId,
): Promise<BrokersView> {
  const { cluster, listeners, links = [] } = await getCluster(core, principal, id);
  const { reports, members } = isServing(cluster.phase) ? await ask(core, cluster) : NOTHING;
  const brokers = brokerIdsOf({ ...cluster, ...listeners }).map((brokerId) => {
    const isIt = (each: { readonly brokerId: number }) => each.brokerId === brokerId;
    return {
      brokerId,
      member: members.members.find(isIt),
      report: reports.find(isIt),
      link: links.find(isIt),
    };
  });
  return { cluster, brokers, events: members.events.slice(0, EVENTS_MAX) };
}

/** What cannot be asked is not known: the rest is shown nevertheless. */
async function ask(core: Core, cluster: Cluster): Promise<Told> {
  const known =
    <T>(otherwise: T) =>
    (error: unknown) => {
      if (error instanceof BrokerError) return otherwise;
      throw error;
    };
  const http = await core.brokerHttp(cluster).catch(known(undefined));
  if (http === undefined) return NOTHING;
  const [reports, members] = await Promise.all([
    http.brokerReports().catch(known(NOTHING.reports)),
    cluster.brokers > 1 ? http.cluster().catch(known(NOTHING.members)) : NOTHING.members,
  ]);
  return { reports, members };
}
