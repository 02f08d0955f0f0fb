/** The driver before an AWS that answers badly, or not at all. */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MemoryStates } from "../../test/memory-states.ts";
import { awsDeployment, driverOptions } from "../../test/moto.ts";
import { type ClusterDeployment, ProvisionError } from "../cluster-driver.ts";
import { AwsDriver } from "./aws-driver.ts";
import { askingAws } from "./sdk-errors.ts";

/** What STS gives; everybody else answers as the test says. */
const SESSION = `<AssumeRoleResponse><AssumeRoleResult><Credentials>
  <AccessKeyId>a</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>
  <Expiration>2100-01-01T00:00:00Z</Expiration>
  </Credentials></AssumeRoleResult></AssumeRoleResponse>`;
const REQUEST_MS_MAX = 50;

let server: Server;
let answer: (response: ServerResponse, isJson: boolean) => void;
let home: string;
let driver: AwsDriver;
let deployment: ClusterDeployment;

beforeEach(async () => {
  server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      const isJson = request.headers["content-type"]?.includes("json") === true;
      if (body.includes("Action=AssumeRole")) response.end(SESSION);
      else answer(response, isJson);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  home = await mkdtemp(join(tmpdir(), "millrace-refused-"));
  // As much of Terraform as is asked for before AWS is.
  const bin = join(home, "terraform-version");
  await writeFile(bin, `#!/bin/sh\necho '{"terraform_version":"1.11.4"}'\n`, { mode: 0o700 });
  const { account, program, ...options } = driverOptions(home, endpoint, {
    states: new MemoryStates(),
  });
  driver = new AwsDriver({
    ...options,
    program: { ...program, bin, mirror: undefined },
    account: { ...account, requestMsMax: REQUEST_MS_MAX },
  });
  deployment = await awsDeployment(driver, "clu_a");
});

afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await rm(home, { recursive: true, force: true });
});

function asked(): [string, Promise<unknown>][] {
  return [
    ["plan", driver.plan(deployment, { purpose: "apply" })],
    ["sweep", driver.sweep(deployment)],
    ["waitReady", driver.waitReady(deployment, { timeoutMs: 1 })],
  ];
}

test.each<[string, typeof answer, string]>([
  ["does not answer", () => {}, "throttled"],
  ["hangs up", (response) => response.destroy(), "throttled"],
  ["refuses", refusal(403, "UnauthorizedOperation"), "auth"],
])("AWS that %s is a reason that an operation knows", { timeout: 60_000 }, async (_, as, code) => {
  answer = as;
  const ends = asked().map(async ([name, end]) => {
    const error = await end.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error, name).toBeInstanceOf(ProvisionError);
    expect((error as ProvisionError).code, name).toBe(code);
  });
  await Promise.all(ends);
});

test("what is not of AWS stays what it is, and what AWS says is kept", async () => {
  const fault = new TypeError("ours");
  await expect(askingAws("plan_failed", () => Promise.reject(fault))).rejects.toBe(fault);
  const known = new ProvisionError("config", "known");
  await expect(askingAws("plan_failed", () => Promise.reject(known))).rejects.toBe(known);
  const odd = Object.assign(new Error("why"), { name: "Odd", $metadata: {}, $fault: "client" });
  await expect(askingAws("plan_failed", () => Promise.reject(odd))).rejects.toMatchObject({
    ...{ code: "plan_failed", message: "AWS refused: Odd", detail: "Odd: why", cause: odd },
  });
  // The clients themselves ask again for some seconds before they say so.
  for (const late of [{ name: "RequestLimitExceeded" }, { $fault: "server" }]) {
    const end = Promise.reject(Object.assign(new Error("why"), { $metadata: {}, ...late }));
    await expect(askingAws("plan_failed", () => end)).rejects.toMatchObject({ code: "throttled" });
  }
});

/** An error in the words of the protocols that AWS's services speak. */
function refusal(status: number, code: string) {
  const error = `<Error><Code>${code}</Code><Message>no</Message></Error>`;
  const xml = `<Response><Errors>${error}</Errors>${error}</Response>`;
  const json = JSON.stringify({ __type: code, message: "no" });
  return (response: ServerResponse, isJson: boolean) => {
    response.writeHead(status, { "x-amzn-errortype": code }).end(isJson ? json : xml);
  };
}
