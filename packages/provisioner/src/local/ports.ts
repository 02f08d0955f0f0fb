import { createHash } from "node:crypto";
import { createServer } from "node:net";
import { type Placement, ProvisionError } from "../cluster-driver.ts";

/**
 * Ports of local clusters lie below the ranges from which Linux (32768…) and macOS (49152…) give
 * ports to outgoing connections, so that no connection takes a stopped broker's port.
 */
export interface PortRange {
  readonly kafkaFirst: number;
  readonly adminFirst: number;
  /** How many clusters fit; the two ranges must not overlap. */
  readonly count: number;
}

export const DEFAULT_PORTS: PortRange = { kafkaFirst: 19_092, adminFirst: 19_592, count: 500 };

const HOST = "127.0.0.1";

/**
 * A pair of ports that is free on this machine and assigned to no cluster. The search starts at an offset
 * derived from the cluster's id. Otherwise clusters that are created concurrently, or by another installation
 * on this machine whose stopped brokers hold no port, would all pick the lowest pair.
 */
export async function allocatePorts(
  clusterId: string,
  range: PortRange,
  taken: readonly Placement[],
): Promise<Placement> {
  const takenPorts = new Set(taken.flatMap((each) => [each.kafkaPort, each.adminPort]));
  const first = createHash("sha256").update(clusterId).digest().readUInt32BE() % range.count;
  for (let tried = 0; tried < range.count; tried += 1) {
    const index = (first + tried) % range.count;
    const kafkaPort = range.kafkaFirst + index;
    const adminPort = range.adminFirst + index;
    if (takenPorts.has(kafkaPort) || takenPorts.has(adminPort)) continue;
    if ((await isFree(kafkaPort)) && (await isFree(adminPort))) {
      return { host: HOST, kafkaPort, adminPort };
    }
  }
  throw new ProvisionError(
    "no_placement",
    `no free ports from ${range.kafkaFirst} and ${range.adminFirst}: delete a cluster or free some`,
  );
}

/** Whether a server could listen there now. */
async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return await new Promise((resolve) => {
    server.once("error", () => resolve(false));
    server.listen({ host: HOST, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
