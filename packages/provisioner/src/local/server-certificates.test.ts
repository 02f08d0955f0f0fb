import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer } from "node:tls";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BrokerFiles } from "./broker-files.ts";
import { CertificateAuthority } from "./certificate-authority.ts";
import { ServerCertificates } from "./server-certificates.ts";

const HOST = "127.0.0.1";
const NAMES = { dns: ["localhost"], ip: [HOST] };
const DAY_MS = 24 * 60 * 60_000;

let home: string;
let files: BrokerFiles;
let now: Date;
let monotonic = 0;
const clock = { now: () => now };

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "millrace-ca-"));
  files = new BrokerFiles(home, "clu_a");
  await mkdir(files.folder, { recursive: true });
  now = new Date();
});
afterEach(() => rm(home, { recursive: true }));

const newAuthority = () => new CertificateAuthority(home, clock);
const newCertificates = () => new ServerCertificates(newAuthority(), () => monotonic);
const pem = () => readFileSync(files.certificateFile, "utf8");

test("a server at an address gets a certificate for that address, others one for their name", async () => {
  await newCertificates().ensure(files, "198.18.0.1");
  expect(new X509Certificate(pem()).subjectAltName).toBe("IP Address:198.18.0.1");
  await newCertificates().ensure(files, "gateway.example.com");
  expect(new X509Certificate(pem()).subjectAltName).toBe("DNS:gateway.example.com");
});

/** What a client that trusts `ca` says of a server with this file: its error, or nothing. */
async function handshake(file: string, ca: string, servername: string): Promise<string> {
  const server = createServer({ cert: file, key: file }).listen(0, HOST);
  server.on("tlsClientError", () => {});
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const options = servername === "" ? {} : { servername };
  const socket = connect({ port, host: HOST, ca, ...options });
  const outcome = await new Promise<string>((resolve) => {
    socket.once("secureConnect", () => resolve(""));
    socket.once("error", (error) => resolve(error.message));
  });
  socket.destroy();
  server.close();
  return outcome;
}

describe("a certificate", () => {
  test("is accepted by TLS clients that trust the root, under the broker's names only", async () => {
    const authority = newAuthority();
    const issued = await authority.issue(HOST, NAMES);
    const root = (await authority.root()) ?? "";
    expect(await handshake(issued, root, "localhost")).toBe("");
    expect(await handshake(issued, root, "")).toBe("");
    expect(await handshake(issued, root, "example.org")).toContain("altnames");
    const otherHome = await mkdtemp(join(tmpdir(), "millrace-ca-"));
    const other = new CertificateAuthority(otherHome, clock);
    await other.issue(HOST, NAMES);
    expect(await handshake(issued, (await other.root()) ?? "", "localhost")).toContain("verify");
    await rm(otherHome, { recursive: true });
  });

  test("the root holds no key, and its file is its owner's alone", async () => {
    const authority = newAuthority();
    expect(await authority.root()).toBeUndefined();
    await authority.issue(HOST, NAMES);
    const root = (await authority.root()) ?? "";
    expect(root).not.toContain("PRIVATE");
    expect(new X509Certificate(root).ca).toBe(true);
    expect(statSync(join(home, "keys", "ca.pem")).mode & 0o777).toBe(0o600);
    expect(statSync(join(home, "keys")).mode & 0o777).toBe(0o700);
  });

  test("programs that start concurrently agree on one CA", async () => {
    const issued = await Promise.all(
      Array.from({ length: 4 }, () => newAuthority().issue(HOST, NAMES)),
    );
    for (const each of issued) expect(await newAuthority().isCurrent(each, NAMES, 0)).toBe(true);
    expect(await readdir(join(home, "keys"))).toEqual(["ca.pem"]);
  });

  test("a damaged CA is reported and not replaced", async () => {
    await newAuthority().issue(HOST, NAMES);
    writeFileSync(join(home, "keys", "ca.pem"), "nothing");
    await expect(newAuthority().issue(HOST, NAMES)).rejects.toMatchObject({ code: "config" });
    await expect(newAuthority().root()).rejects.toThrow("restore it from a backup");
  });
});

describe("the cluster's file", () => {
  test("keeps a certificate that is good, and replaces one that is not", async () => {
    await newCertificates().ensure(files, HOST);
    expect(statSync(files.certificateFile).mode & 0o777).toBe(0o600);
    const first = pem();
    await newCertificates().ensure(files, HOST);
    expect(pem()).toBe(first);
    await newCertificates().ensure(files, "broker.example.org");
    expect(new X509Certificate(pem()).checkHost("broker.example.org")).toBeDefined();
    writeFileSync(files.certificateFile, first.slice(0, 200));
    await newCertificates().ensure(files, HOST);
    expect(await newAuthority().isCurrent(pem(), NAMES, 0)).toBe(true);
  });

  test("is checked at once when a lost CA was replaced by a new one", async () => {
    const other = new BrokerFiles(home, "clu_b");
    await mkdir(other.folder, { recursive: true });
    const certificates = newCertificates();
    await certificates.ensure(files, HOST);
    await rm(join(home, "keys"), { recursive: true });
    await certificates.ensure(other, HOST);
    await certificates.renew(files, HOST);
    expect(await newAuthority().isCurrent(pem(), NAMES, 0)).toBe(true);
  });

  test("is renewed 30 days before it expires, and looked at once an hour", async () => {
    const certificates = newCertificates();
    await certificates.ensure(files, HOST);
    const first = pem();
    const expires = Date.parse(new X509Certificate(first).validTo);
    now = new Date(expires - 31 * DAY_MS);
    monotonic += 60 * 60_000;
    await certificates.renew(files, HOST);
    expect(pem()).toBe(first);
    now = new Date(expires - 29 * DAY_MS);
    await certificates.renew(files, HOST);
    expect(pem()).toBe(first);
    monotonic += 60 * 60_000;
    await certificates.renew(files, HOST);
    const second = new X509Certificate(pem());
    expect(Date.parse(second.validTo)).toBeGreaterThan(expires);
    expect(second.serialNumber).not.toBe(new X509Certificate(first).serialNumber);
  });

  test("a CA that cannot be used fails once an hour, not at every look", async () => {
    const certificates = newCertificates();
    await certificates.ensure(files, HOST);
    await rm(files.certificateFile);
    writeFileSync(join(home, "keys", "ca.pem"), "nothing");
    monotonic += 60 * 60_000;
    await expect(certificates.renew(files, HOST)).rejects.toMatchObject({ code: "config" });
    await certificates.renew(files, HOST);
    monotonic += 60 * 60_000;
    await expect(certificates.renew(files, HOST)).rejects.toMatchObject({ code: "config" });
  });
});
