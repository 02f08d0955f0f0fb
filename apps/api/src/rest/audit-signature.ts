import {
  createHash,
  createPrivateKey,
  createPublicKey,
  hkdfSync,
  type KeyObject,
  sign,
} from "node:crypto";

/** PKCS #8 of an Ed25519 key up to its 32 bytes (RFC 8410, 7). */
const PKCS8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");
const KEY_BYTES = 32;
const KEY_ID_CHARS = 16;

/** The last line of a signed export. */
interface SignatureLine {
  readonly signature: {
    readonly algorithm: "Ed25519";
    /** The first characters of the SHA-256 of the public key's DER. */
    readonly key_id: string;
    /** Lines before this one. */
    readonly events: number;
    /** SHA-256 of the bytes of those lines, each with its newline, in hexadecimal. */
    readonly sha256: string;
    /** Signature of the text `millrace-audit-export\n<events>\n<sha256>\n`, in base64. */
    readonly value: string;
  };
}

/**
 * Signs exports of the audit log with a key of the installation: derived from its secret, for this alone. Whoever has
 * the public key can tell later that an export is whole and came from here.
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

  /** The items as lines, and the signature's. None where `isCut` says that items are missing at the end. */
  async *lines(items: AsyncIterable<object>, isCut: () => boolean): AsyncGenerator<string, void> {
    const hash = createHash("sha256");
    let events = 0;
    for await (const item of items) {
      const line = `${JSON.stringify(item)}\n`;
      hash.update(line);
      events += 1;
      yield line;
    }
    if (!isCut()) yield `${JSON.stringify(this.#signatureOf(events, hash.digest("hex")))}\n`;
  }

  #signatureOf(events: number, sha256: string): SignatureLine {
    const text = `millrace-audit-export\n${events}\n${sha256}\n`;
    const value = sign(null, Buffer.from(text), this.#key).toString("base64");
    return { signature: { algorithm: "Ed25519", key_id: this.#keyId, events, sha256, value } };
  }
}
