import { createHash } from "node:crypto";
import { createServer } from "node:net";
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

export const DEFAULT_PORTS: PortRange = {
  kafkaFirst: 19_092,
  adminFirst: 19_592,
  tlsFirst: 20_092,
  count: 500,
};

const HOST = "127.0.0.1";

export interface PortOptions {
  readonly range: PortRange;
  /** Whether the broker gets a port for its admin HTTP. */
  readonly admin: boolean;
}

/**
 * Ports that are free on this machine and assigned to no cluster. The search starts at an offset
 * derived from the cluster's id. Otherwise clusters that are created concurrently, or by another installation
 * on this machine whose stopped brokers hold no port, would all pick the lowest ones.
 */
export async function allocatePorts(
  clusterId: string,
  { range, admin }: PortOptions,
  taken: readonly Placement[],
): Promise<Placement> {
  const takenPorts = new Set(taken.flatMap(portsOf));
  const first = createHash("sha256").update(clusterId).digest().readUInt32BE() % range.count;
  for (let tried = 0; tried < range.count; tried += 1) {
    const index = (first + tried) % range.count;
    const placement: Placement = {
      host: HOST,
      kafkaPort: range.kafkaFirst + index,
      ...(admin && { adminPort: range.adminFirst + index }),
      tlsPort: range.tlsFirst + index,
    };
    const ports = portsOf(placement);
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
