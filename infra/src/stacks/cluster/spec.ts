/**
 * The specification of one tenant's cluster on AWS. It has everything that a plan depends on, so
 * that a stack can be synthesized, and planned, without asking AWS.
 */
import { type AwsSpec, type ClusterSize, zonedSlots } from "@millrace/domain";

/**
 * - `running`   all of it;
 * - `paused`    no instance, everything else stays;
 * - `retained`  what holds data only: volumes, bucket, key and log group, and the metadata database in its network;
 * - `purge`     the same, no longer protected: to be applied before it is destroyed.
 */
export type ClusterStackMode = "running" | "paused" | "retained" | "purge";

/** A broker build in a bucket of the installation. */
export interface BrokerArtefact {
  readonly bucket: string;
  readonly key: string;
  /** SHA-256 of the file, lower-case hex. */
  readonly sha256: string;
  /** The key that the bucket encrypts with, where it is not S3's own. */
  readonly kmsKeyArn?: string;
}

/** The endpoint service of the control plane's gateways, which brokers dial. */
export interface ControlLinkService {
  /** `com.amazonaws.vpce.<region>.vpce-svc-…` */
  readonly name: string;
  /** Names directly below this domain are in the gateways' certificate. */
  readonly domain: string;
  /** Zones that the service is in, by name; an endpoint can be in no other. */
  readonly zones: readonly string[];
}

export interface ClusterStackSpec extends AwsSpec {
  readonly mode: ClusterStackMode;
  readonly organizationId: string;
  readonly environmentId: string;
  readonly clusterId: string;
  readonly name: string;
  /** The tenant's labels, which become tags. */
  readonly labels: Readonly<Record<string, string>>;
  /** The account that the stack is applied in; twelve digits. */
  readonly accountId: string;
  readonly region: string;
  /** One to three zones of the region, by name; two at least for several slots. Slots go round them. */
  readonly zones: readonly string[];
  /** Broker slots, 1 to 9. Several share their metadata in a database. */
  readonly slots: number;
  readonly size: ClusterSize;
  readonly artefact: BrokerArtefact;
  /** The AMI of instances: an Amazon Linux 2023 for ARM64 of the region. */
  readonly amiId: string;
  /**
   * Broker properties that follow from the size and from what the tenant asked for. They go before
   * those that follow from volume and instance.
   */
  readonly properties: Readonly<Record<string, string>>;
  /** The role that applies the stack: the policy of the cluster's key names it. */
  readonly provisionerRoleArn: string;
  /** Put on every role that is made. */
  readonly permissionsBoundaryArn: string;
  readonly controlLink: ControlLinkService;
  /** SNS topics that alarms are sent to. Absent: alarms are only shown. */
  readonly alarmTopicArns?: readonly string[];
  /**
   * The certificate, in PEM, of the authority whose databases in the region brokers trust. Only several slots need it.
   */
  readonly databaseAuthority?: string | undefined;
}

/** One broker's place. */
export interface Slot {
  /** Its broker's node id: 0 where it is the only one, else from 1. */
  readonly id: number;
  readonly zone: string;
  /** Of the zone among the spec's. */
  readonly zoneIndex: number;
}

/**
 * Indexes of the zones in which the endpoint of the control link has an address: those of slots, if the service is in
 * any of them, or else one that it is in. Empty if the cluster has no zone of the service's.
 */
export function linkZonesOf(
  spec: Pick<ClusterStackSpec, "slots" | "zones" | "controlLink">,
): number[] {
  const shared = spec.zones.flatMap((zone, index) =>
    spec.controlLink.zones.includes(zone) ? [index] : [],
  );
  const used = new Set(slotsOf(spec).map(({ zoneIndex }) => zoneIndex));
  const near = shared.filter((index) => used.has(index));
  return near.length > 0 ? near : shared.slice(0, 1);
}

export function slotsOf(spec: Pick<ClusterStackSpec, "slots" | "zones">): Slot[] {
  return zonedSlots(spec.slots, spec.zones.length).map(({ id, zoneIndex }) => {
    return { id, zone: spec.zones[zoneIndex] as string, zoneIndex };
  });
}

/** Whether the slots are several, which share a metadata database. */
export function hasSeveral({ slots }: Pick<ClusterStackSpec, "slots">): boolean {
  return slots > 1;
}
