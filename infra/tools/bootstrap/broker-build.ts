import { createHash } from "node:crypto";
import { closeSync, createReadStream, openSync, readSync, statSync } from "node:fs";
import type { BrokerBuild } from "../../src/stacks/control-plane/spec.ts";
import { Refused } from "./refused.ts";

const ELF_MAGIC = 0x7f454c46;
const HEADER_BYTES = 20;
const MACHINE_OFFSET = 18;
/** `EM_AARCH64`: the instances are Graviton. */
const AARCH64 = 183;
/** Of Amazon Linux 2023. */
const GLIBC_MINOR_MAX = 34;
/** Names of the C library's versions that a program needs, as its symbols have them. */
const GLIBC = /GLIBC_2\.(\d{1,3})/g;
/** Longer than such a name, which may be cut by the end of a chunk. */
const NAME_BYTES = 16;

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
      `${path}: not built for ARM64 Linux, which the instances run. Build it\n` +
        "as part a of infra/DEPLOY.md says",
    );
  }
  const hash = createHash("sha256");
  let glibcMinor = 0;
  let rest = "";
  for await (const chunk of createReadStream(path)) {
    hash.update(chunk as Buffer);
    const text = rest + (chunk as Buffer).toString("latin1");
    for (const [, minor] of text.matchAll(GLIBC)) glibcMinor = Math.max(glibcMinor, Number(minor));
    rest = text.slice(-NAME_BYTES);
  }
  if (glibcMinor > GLIBC_MINOR_MAX) {
    throw new Refused(
      `${path}: needs glibc 2.${glibcMinor}, and Amazon Linux 2023 has 2.${GLIBC_MINOR_MAX}. Build it on that\n` +
        "(infra/DEPLOY.md, part a)",
    );
  }
  return { path, sha256: hash.digest("hex") };
}
