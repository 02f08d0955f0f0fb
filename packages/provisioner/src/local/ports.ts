import { createHash } from "node:crypto";
import { createServer } from "node:net";
import { BROKERS_PER_CLUSTER_MAX, brokerIdsOf, placementOf } from "@millrace/domain";
import { type Placement, ProvisionError } from "../cluster-driver.ts";

/**
 * Ports of local clusters lie below the ranges from which Linux (32768…) and macOS (49152…) give
 * ports to outgoing connections, so that no connection takes a stopped broker's port.
 */
export interface PortRange {
  readonly kafkaFirst: number;
  /** Of brokers that no gateway reaches. */
  readonly adminFirst: number;
  readonly tlsFirst: number;
  /** How many clusters fit; the ranges must not overlap. */
  readonly count: number;
}

/** Ports of clusters with one broker, which takes one of each range. */
export const DEFAULT_PORTS: PortRange = {
  kafkaFirst: 19_092,
  adminFirst: 19_592,
  tlsFirst: 20_092,
  count: 500,
};

/**
 * Ports of clusters with several brokers. Each holds as many ports of each range as it may ever have brokers, so that it can
 * grow. They begin at multiples of that number: two clusters have the same first port, or none in common.
 */
export const DEFAULT_PORTS_OF_SEVERAL: PortRange = {
  kafkaFirst: 20_592,
  adminFirst: 21_492,
  tlsFirst: 22_392,
  count: 100,
};

const HOST = "127.0.0.1";

export interface PortOptions {
  readonly range: PortRange;
  /** Whether brokers get a port for their admin HTTP. */
  readonly admin: boolean;
  /** Whether the cluster has several brokers. */
  readonly several: boolean;
}

/**
 * Ports that are free on this machine and assigned to no cluster. The search starts at an offset
 * derived from the cluster's id. Otherwise clusters that are created concurrently, or by another installation
 * on this machine whose stopped brokers hold no port, would all pick the lowest ones.
 */
export async function allocatePorts(
  clusterId: string,
  { range, admin, several }: PortOptions,
  taken: readonly Placement[],
): Promise<Placement> {
  const brokers = several ? BROKERS_PER_CLUSTER_MAX : 1;
  const takenPorts = new Set(taken.flatMap(portsOf));
  const first = createHash("sha256").update(clusterId).digest().readUInt32BE() % range.count;
  for (let tried = 0; tried < range.count; tried += 1) {
    const index = (first + tried) % range.count;
    const placement: Placement = {
      host: HOST,
      kafkaPort: range.kafkaFirst + index * brokers,
      ...(admin && { adminPort: range.adminFirst + index * brokers }),
      tlsPort: range.tlsFirst + index * brokers,
    };
    const ports = brokerIdsOf({ brokers }).flatMap((id) => portsOf(placementOf(placement, id)));
    if (ports.some((port) => takenPorts.has(port)) || !(await areFree(ports))) continue;
    return placement;
  }
  const firsts = [range.kafkaFirst, ...(admin ? [range.adminFirst] : []), range.tlsFirst];
  throw new ProvisionError(
    "no_placement",
    `no free ports from ${firsts.join(", ")}: delete a cluster or free some`,
  );
}

function portsOf({ kafkaPort, adminPort, tlsPort }: Placement): number[] {
  return [kafkaPort, adminPort, tlsPort].filter((port) => port !== undefined);
}

async function areFree(ports: readonly number[]): Promise<boolean> {
  for (const port of ports) if (!(await isFree(port))) return false;
  return true;
}

/** Whether a server could listen there now. */
async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return await new Promise((resolve) => {
    server.once("error", () => resolve(false));
    server.listen({ host: HOST, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
