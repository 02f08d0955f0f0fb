/** A role of the control plane that somebody gave a policy by hand, on an emulator of AWS. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ServiceRole } from "../../src/constructs/identity/service-role.ts";
import { synthesize } from "../../src/synth.ts";
import { SPEC } from "../stack-fixture.ts";
import { HAS_TERRAFORM, TerraformFolder } from "./terraform-folder.ts";

const MOTO = process.env.MILLRACE_MOTO ?? "";
const START_SECONDS_MAX = 60;
const ROLE = "worker";
/** Whom the emulator takes unknown credentials for. */
const EMULATED_ACCOUNT = "123456789012";
/** The emulator tells who asks by the credential, and believes any signature. */
const SIGNED = {
  Authorization:
    "AWS4-HMAC-SHA256 Credential=none/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0",
};
const EVERYTHING = JSON.stringify({
  Version: "2012-10-17",
  Statement: [{ Effect: "Allow", Action: "*", Resource: "*" }],
});

describe.skipIf(!HAS_TERRAFORM || MOTO === "")("a role that somebody gave a policy", () => {
  let moto: ChildProcess;
  let endpoint: string;
  let folder: TerraformFolder;

  beforeAll(async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    server.close();
    await once(server, "close");
    endpoint = `http://127.0.0.1:${port}`;
    moto = spawn(MOTO, ["-H", "127.0.0.1", "-p", String(port)], { stdio: "ignore" });
    for (let waited = 0; !(await fetch(endpoint).catch(() => undefined)); waited += 1) {
      if (waited > START_SECONDS_MAX) throw new Error(`${MOTO} did not start on ${endpoint}`);
      await sleep(1_000);
    }
    const place = { region: SPEC.region, accountId: EMULATED_ACCOUNT };
    const stack = synthesize("test", place, { endpoint }, (scope) => {
      new ServiceRole(scope, "role", {
        ...{ name: ROLE, service: "ecs-tasks.amazonaws.com", accountId: SPEC.accountId },
        permissionsBoundaryArn: SPEC.permissionsBoundaryArn,
        statements: [
          { Sid: "One", Effect: "Allow", Action: ["s3:GetObject"], Resource: ["arn:aws:s3:::b/*"] },
        ],
      });
    });
    folder = await TerraformFolder.open(stack);
  }, 200_000);

  afterAll(async () => {
    folder?.close();
    if (moto?.exitCode !== null) return;
    const exited = once(moto, "exit");
    moto.kill("SIGKILL");
    await exited;
  });

  async function iam(parameters: Record<string, string>): Promise<string> {
    const body = new URLSearchParams({ Version: "2010-05-08", ...parameters });
    const answer = await fetch(endpoint, { method: "POST", headers: SIGNED, body });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    return text;
  }

  async function policies(): Promise<string[]> {
    const lists = await Promise.all([
      iam({ Action: "ListRolePolicies", RoleName: ROLE }),
      iam({ Action: "ListAttachedRolePolicies", RoleName: ROLE }),
    ]);
    const names = /<member>([^<]+)<\/member>|<PolicyName>([^<]+)</g;
    return lists.flatMap((text) =>
      [...text.matchAll(names)].map((match) => match[1] ?? match[2] ?? ""),
    );
  }

  const apply = () => folder.expect("apply", "-auto-approve", "-input=false", "-no-color");

  test("has its own alone after the next apply, and goes without harm", async () => {
    await apply();
    expect(await policies()).toEqual(["service"]);
    const document = { PolicyDocument: EVERYTHING };
    await iam({ Action: "PutRolePolicy", RoleName: ROLE, PolicyName: "theirs", ...document });
    const made = await iam({ Action: "CreatePolicy", PolicyName: "everything", ...document });
    const PolicyArn = /<Arn>([^<]+)/.exec(made)?.[1] ?? "";
    await iam({ Action: "AttachRolePolicy", RoleName: ROLE, PolicyArn });
    expect((await policies()).sort()).toEqual(["everything", "service", "theirs"]);
    await apply();
    expect(await policies()).toEqual(["service"]);
    expect(await apply()).toContain("No changes");
    await folder.expect("destroy", "-auto-approve", "-input=false", "-no-color");
    await expect(policies()).rejects.toThrow("NoSuchEntity");
  }, 300_000);
});
