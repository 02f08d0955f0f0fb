import {
  createHash,
  createPrivateKey,
  createPublicKey,
  hkdfSync,
  type KeyObject,
  sign,
} from "node:crypto";
import { AUDIT_EXPORT_EVENTS_MAX } from "@millrace/domain";

/** PKCS #8 of an Ed25519 key up to its 32 bytes (RFC 8410, 7). */
const PKCS8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");
const KEY_BYTES = 32;
const KEY_ID_CHARS = 16;

/** What was exported. */
export interface AuditExport {
  readonly organization_id: string;
  /** The request's parameters; an absent one selects everything. */
  readonly query: Readonly<Record<string, unknown>>;
  /** When the export began: RFC 3339, UTC. */
  readonly exported_at: string;
}

/** The line before the last one of a signed export: describes the events above it. */
interface ExportLine {
  readonly export: AuditExport & {
    readonly events: number;
    /** False where the export ended at its maximum, and older events may match the query. */
    readonly complete: boolean;
    /** SHA-256 of the lines of events, each with its newline, in hexadecimal. */
    readonly sha256: string;
  };
}

/** The last line of a signed export. */
interface SignatureLine {
  readonly signature: {
    readonly algorithm: "Ed25519";
    /** The first characters of the SHA-256 of the public key's DER. */
    readonly key_id: string;
    /** Signature of the bytes of the line before, with its newline, in base64. */
    readonly value: string;
  };
}

/**
 * Signs exports of the audit log with a key of the installation: derived from its secret, for this alone. Whoever has
 * the public key can check later which organization, query and time an export is of, that nothing of it is missing or
 * changed, and that it came from here.
 */
export class AuditSigner {
  readonly #key: KeyObject;
  /** PEM, SubjectPublicKeyInfo. */
  readonly publicKey: string;
  readonly #keyId: string;

  constructor(secret: string) {
    const seed = hkdfSync("sha256", secret, "", "millrace audit export", KEY_BYTES);
    const der = Buffer.concat([PKCS8_PREFIX, Buffer.from(seed)]);
    this.#key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
    const publicKey = createPublicKey(this.#key);
    this.publicKey = publicKey.export({ type: "spki", format: "pem" }).toString();
    const spki = publicKey.export({ type: "spki", format: "der" });
    this.#keyId = createHash("sha256").update(spki).digest("hex").slice(0, KEY_ID_CHARS);
  }

  /** The events as lines, then what they are, then the signature. Neither where `isCut` says that the export was cut off. */
  async *lines(
    events: AsyncIterable<object>,
    exported: AuditExport,
    isCut: () => boolean,
  ): AsyncGenerator<string, void> {
    const hash = createHash("sha256");
    let count = 0;
    for await (const event of events) {
      const line = lineOf(event);
      hash.update(line);
      count += 1;
      yield line;
    }
    if (isCut()) return;
    const complete = count < AUDIT_EXPORT_EVENTS_MAX;
    const described: ExportLine = {
      export: { ...exported, events: count, complete, sha256: hash.digest("hex") },
    };
    const line = lineOf(described);
    yield line;
    yield lineOf(this.#signatureOf(line));
  }

  #signatureOf(line: string): SignatureLine {
    const value = sign(null, Buffer.from(line), this.#key).toString("base64");
    return { signature: { algorithm: "Ed25519", key_id: this.#keyId, value } };
  }
}

function lineOf(value: object): string {
  return `${JSON.stringify(value)}\n`;
}
