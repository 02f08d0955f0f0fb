import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { LOCAL_DEPLOYMENT } from "../../test/deployment.ts";
import type { ClusterDeployment } from "../cluster-driver.ts";
import { BrokerFiles } from "./broker-files.ts";
import { renderProperties } from "./broker-properties.ts";

function deployment(properties: Record<string, string>): ClusterDeployment {
  return {
    ...LOCAL_DEPLOYMENT,
    clusterId: "clu_a",
    placement: { host: "127.0.0.1", kafkaPort: 19_092, adminPort: 19_592 },
    walCapacityBytes: 268_435_456,
    properties,
  };
}

test("paths survive spaces, percent and question marks in the state folder's name", () => {
  const text = renderProperties(new BrokerFiles("/home/a b/50%?", "clu_a"), deployment({}));
  expect(text).toContain(
    "\ns3.wal.path=0@file:///home/a%20b/50%25%3F/clusters/clu_a/wal/wal?capacity=268435456&iodepth=8&iops=3000\n",
  );
  expect(text).toContain(
    "\ns3.data.buckets=0@file:///home/a%20b/50%25%3F/clusters/clu_a/objects\n",
  );
  expect(text).toContain("\ndata.dir=/home/a b/50%?/clusters/clu_a/data\n");
});

test("with a gateway, the broker gets a control link; without one, none", () => {
  const linked = new BrokerFiles("/home", "clu_a", { linkAddress: "127.0.0.1:4100" });
  expect(renderProperties(linked, deployment({}))).toContain(
    `
control.link.address=127.0.0.1:4100
control.link.credential.file=/home/clusters/clu_a/link.credential
control.link.ca.file=/home/clusters/clu_a/link-ca.pem
`,
  );
  const direct = renderProperties(new BrokerFiles("/home", "clu_a"), deployment({}));
  expect(direct).not.toContain("control.link");
});

test("a broker has an admin port exactly where its placement has one", () => {
  const files = new BrokerFiles("/home", "clu_a", { linkAddress: "127.0.0.1:4100" });
  const placed = deployment({});
  expect(renderProperties(files, placed)).toContain("\nadmin.listener=127.0.0.1:19592\n");
  const { adminPort: _, ...placement } = placed.placement;
  expect(renderProperties(files, { ...placed, placement })).toContain("\nadmin.listener=none\n");
});

test("backslashes are escaped, line breaks and odd keys are refused", () => {
  const files = new BrokerFiles("/home", "clu_a");
  expect(renderProperties(files, deployment({ a: "x\\y" }))).toContain("\na=x\\\\y\n");
  expect(() => renderProperties(files, deployment({ a: "x\ny=z" }))).toThrow("a cannot be written");
  expect(() => renderProperties(files, deployment({ "a b": "x" }))).toThrow("cannot be written");
  expect(() => renderProperties(files, deployment({ listeners: "x" }))).toThrow("listeners");
});

test("users need ACLs where there is a TLS listener, except the first one and this machine's programs", () => {
  const files = new BrokerFiles("/home", "clu_a");
  const plain = deployment({});
  const text = renderProperties(files, {
    ...plain,
    placement: { ...plain.placement, tlsPort: 20_092 },
  });
  expect(text).toMatch(/^authorizer\.class\.name=.*StandardAuthorizer$/m);
  expect(text).toContain("\nsuper.users=User:ANONYMOUS;User:admin\n");
  expect(text).toContain("\nlisteners=PLAINTEXT://127.0.0.1:19092,SASL_SSL://127.0.0.1:20092\n");
  expect(text).toContain("\nadmin.sasl.enabled=true\n");
  expect(renderProperties(files, plain)).not.toMatch(/authorizer|SASL|ssl/);
  expect(() => renderProperties(files, deployment({ "super.users": "User:eve" }))).toThrow("super");
});

test("without the plaintext listener nobody is a super user but the first user", () => {
  const plain = deployment({});
  const secure = {
    ...plain,
    placement: { ...plain.placement, tlsPort: 20_092 },
    plaintextListener: false,
  };
  const text = renderProperties(new BrokerFiles("/home", "clu_a"), secure);
  expect(text).toContain("\nlisteners=SASL_SSL://127.0.0.1:20092\n");
  expect(text).toContain("\nadvertised.listeners=SASL_SSL://127.0.0.1:20092\n");
  expect(text).toContain("\nsuper.users=User:admin\n");
});

test("the key of delegation tokens stays, is in files of the owner only, and in nothing that plans show", async () => {
  const home = await mkdtemp(join(tmpdir(), "millrace-files-"));
  const files = new BrokerFiles(home, "clu_a");
  const plain = deployment({});
  const wanted = { ...plain, placement: { ...plain.placement, tlsPort: 20_092 } };
  await files.write(wanted);
  const key = (await readFile(files.cluster.delegationKeyFile, "utf8")).trim();
  expect(key).toMatch(/^[0-9a-f]{64}$/);
  expect(key).not.toBe(await files.readToken());
  const text = () => readFile(files.propertiesFile, "utf8");
  expect(await text()).toContain(`\ndelegation.token.secret.key=${key}\n`);
  for (const file of [files.cluster.delegationKeyFile, files.propertiesFile, files.tokenFile]) {
    expect((await stat(file)).mode & 0o777).toBe(0o600);
  }
  expect(await files.readProperties()).toBe(renderProperties(files, wanted));
  expect(await files.isWritten(wanted)).toBe(true);
  // As a version wrote it that had no such key.
  await writeFile(files.propertiesFile, renderProperties(files, wanted));
  await files.refresh(wanted);
  expect(await text()).toContain(`\ndelegation.token.secret.key=${key}\n`);
  await files.write(plain);
  expect(await text()).not.toContain("delegation");
  await rm(home, { recursive: true });
});

test("a log that exists keeps the capacity that it was formatted for", async () => {
  const home = await mkdtemp(join(tmpdir(), "millrace-files-"));
  const files = new BrokerFiles(home, "clu_a");
  const larger = { ...deployment({}), walCapacityBytes: 2 * 268_435_456 };
  await files.write(deployment({}));
  await files.refresh(larger);
  expect(await files.readProperties()).toContain("capacity=536870912&");
  await files.refresh(deployment({}));
  await writeFile(join(files.folder, "wal/wal"), "a log");
  await files.refresh(larger);
  expect(await files.readProperties()).toContain("capacity=268435456&");
  expect(await files.isWritten(larger)).toBe(true);
  await rm(home, { recursive: true });
});

describe("one of several brokers", () => {
  const several = { ...deployment({}), brokers: 3 };
  several.placement = { host: "127.0.0.1", kafkaPort: 20_592, tlsPort: 22_392 };

  test("has its own node, ports, data and log, and shares token and bucket", () => {
    const text = renderProperties(new BrokerFiles("/home", "clu_a", { brokerId: 3 }), several);
    expect(text).toContain("\nnode.id=3\ncluster.id=clu_a\nbroker.rack=local-c\n");
    expect(text).toContain(
      "\nadvertised.listeners=PLAINTEXT://127.0.0.1:20594,SASL_SSL://127.0.0.1:22394\n",
    );
    expect(text).toContain("\nadmin.token.file=/home/clusters/clu_a/admin.token\n");
    expect(text).toContain("\ndata.dir=/home/clusters/clu_a/broker-3/data\n");
    expect(text).toContain("s3.wal.path=0@file:///home/clusters/clu_a/broker-3/wal/wal?");
    expect(text).toContain("\ns3.data.buckets=0@file:///home/clusters/clu_a/objects\n");
  });

  test("gets the address of the metadata with its password, which plans do not show", async () => {
    const home = await mkdtemp(join(tmpdir(), "millrace-files-"));
    const metadataUrl = (password: string) => `postgres://role:${password}@localhost:5432/db`;
    const files = new BrokerFiles(home, "clu_a", { brokerId: 1, metadataUrl });
    await files.write(several);
    const password = (await readFile(files.cluster.metadataPasswordFile, "utf8")).trim();
    expect(await readFile(files.propertiesFile, "utf8")).toContain(
      `\nmetadata.database.url=postgres://role:${password}@localhost:5432/db\n`,
    );
    expect(await files.readProperties()).toBe(renderProperties(files, several));
    expect((await stat(files.cluster.metadataPasswordFile)).mode & 0o777).toBe(0o600);
    expect(await files.cluster.brokerIds()).toEqual([1]);
    await rm(home, { recursive: true });
  });

  test("cannot be written without a metadata database", async () => {
    const home = await mkdtemp(join(tmpdir(), "millrace-files-"));
    const files = new BrokerFiles(home, "clu_a", { brokerId: 1 });
    await expect(files.write(several)).rejects.toMatchObject({ code: "unconfigured" });
    await rm(home, { recursive: true });
  });
});
