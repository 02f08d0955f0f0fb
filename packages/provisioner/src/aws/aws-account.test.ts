import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { CONTROL_LINK } from "../../test/moto.ts";
import { AwsAccount } from "./aws-account.ts";

const server = createServer();

afterEach(() => server.close());

test("a request to an endpoint that never answers times out", async () => {
  let asked = 0;
  server.on("request", () => {
    asked += 1;
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const account = new AwsAccount({
    roleArn: "arn:aws:iam::111122223333:role/millrace/provisioner",
    externalId: "external",
    controlLink: CONTROL_LINK,
    providerVersion: "5.100.0",
    artefact: { bucket: "b", key: "k", sha256: "0".repeat(64) },
    amiId: "ami-0123456789abcdef0",
    permissionsBoundaryArn: "arn:aws:iam::111122223333:policy/boundary",
    endpoint: `http://127.0.0.1:${port}`,
    requestMsMax: 100,
  });
  const place = { clusterId: "clu_a", organizationId: "org_a", region: "eu-central-1" };
  await expect(account.clients(place)).rejects.toMatchObject({ code: "throttled" });
  expect(asked).toBe(5);
});
