/** The slot that the tests boot: small caches, the bucket a folder. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import type { BrokerSlotSpec } from "../../src/constructs/broker-slot/user-data.ts";

const MIB = 1024 ** 2;
/** Of the slot's credential of the control link. */
export const LINK_SECRET = "millrace-test/link-0";

export interface SlotSpecOptions {
  readonly kafkaPort: number;
  /** Of a gateway on this machine; nobody listens at the default. */
  readonly linkPort?: number;
  readonly sha256?: string;
  readonly walCapacityBytes?: number;
}

export async function slotSpec(
  brokerBin: string,
  options: SlotSpecOptions,
): Promise<BrokerSlotSpec> {
  return {
    clusterId: "clu_test",
    slot: 0,
    region: "eu-central-1",
    broker: {
      bucket: "artefacts",
      key: "broker/millrace",
      sha256: options.sha256 ?? (await sha256Of(brokerBin)),
    },
    dataBucket: { name: "data", uri: "file:///outside/bucket" },
    link: { address: `127.0.0.1:${options.linkPort ?? 9}`, credentialSecret: LINK_SECRET },
    kafkaPort: options.kafkaPort,
    advertised: { host: "127.0.0.1", port: options.kafkaPort },
    wal: { capacityBytes: options.walCapacityBytes ?? 64 * MIB, ioDepth: 8, iops: 3000 },
    logGroup: "/millrace/clu_test",
    properties: {
      "s3.wal.cache.size": String(64 * MIB),
      "s3.wal.upload.threshold": String(16 * MIB),
      "s3.block.cache.size": String(32 * MIB),
      "offsets.topic.num.partitions": "4",
    },
  };
}

const known = new Map<string, Promise<string>>();

function sha256Of(file: string): Promise<string> {
  const found = known.get(file) ?? digest(file);
  known.set(file, found);
  return found;
}

async function digest(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}
