import { createHash } from "node:crypto";
import { closeSync, createReadStream, openSync, readSync, statSync } from "node:fs";
import type { BrokerBuild } from "../../src/stacks/control-plane/spec.ts";
import { Refused } from "./refused.ts";

const ELF_MAGIC = 0x7f454c46;
const HEADER_BYTES = 20;
const MACHINE_OFFSET = 18;
/** `EM_AARCH64`: the instances are Graviton. */
const AARCH64 = 183;

/** The build with its checksum. Refuses what the instances could not run. */
export async function brokerBuild(path: string): Promise<BrokerBuild> {
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) {
    throw new Refused(`${path}: no broker build found; name one with --broker`);
  }
  const header = Buffer.alloc(HEADER_BYTES);
  const file = openSync(path, "r");
  try {
    readSync(file, header, 0, HEADER_BYTES, 0);
  } finally {
    closeSync(file);
  }
  const machine = header.readUInt16LE(MACHINE_OFFSET);
  if (header.readUInt32BE(0) !== ELF_MAGIC || machine !== AARCH64) {
    throw new Refused(
      `${path}: not built for ARM64 Linux, which the instances run. Build it with\n` +
        "  cargo build --release --target aarch64-unknown-linux-gnu",
    );
  }
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return { path, sha256: hash.digest("hex") };
}
