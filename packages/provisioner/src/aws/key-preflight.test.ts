import { EC2Client } from "@aws-sdk/client-ec2";
import {
  DescribeKeyCommand,
  GetKeyPolicyCommand,
  KMSClient,
  ListGrantsCommand,
} from "@aws-sdk/client-kms";
import { beforeEach, expect, test } from "vitest";
import { answering } from "../../test/answering.ts";
import { checkKeys } from "./key-preflight.ts";

const ACCOUNT = "111122223333";
const REGION = "eu-central-1";
const LOG_GROUP = "/millrace/clu_a";
const LOG_GROUP_ARN = `arn:aws:logs:${REGION}:${ACCOUNT}:log-group:${LOG_GROUP}`;
const KEY = `arn:aws:kms:${REGION}:${ACCOUNT}:key/1`;
const AUTO_SCALING = `arn:aws:iam::${ACCOUNT}:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling`;
/** What every key has that the console or Terraform made: no service's role gets anything by it. */
const ACCOUNT_ADMINISTERS = {
  ...{ Effect: "Allow", Action: "kms:*", Resource: "*" },
  Principal: { AWS: `arn:aws:iam::${ACCOUNT}:root` },
};

let defaultKey: string;
let keyManager: string;
let statements: object[];
let grants: object[];
let fails: Error | undefined;
let warnings: string[];

const ec2 = answering(EC2Client, () => ({ KmsKeyId: defaultKey }));
const kms = answering(KMSClient, (command: unknown) => {
  if (fails !== undefined) throw fails;
  if (command instanceof DescribeKeyCommand) {
    return { KeyMetadata: { Arn: KEY, KeyManager: keyManager } };
  }
  if (command instanceof GetKeyPolicyCommand) {
    return { Policy: JSON.stringify({ Version: "2012-10-17", Statement: statements }) };
  }
  if (command instanceof ListGrantsCommand) return { Grants: grants };
  throw new Error("another command");
});

beforeEach(() => {
  defaultKey = "alias/aws/ebs";
  keyManager = "CUSTOMER";
  statements = [ACCOUNT_ADMINISTERS];
  grants = [];
  fails = undefined;
  warnings = [];
});

function check(storageKeyArn?: string): Promise<void> {
  return checkKeys(
    { ec2, kms },
    {
      ...{ accountId: ACCOUNT, region: REGION, logGroup: LOG_GROUP, storageKeyArn },
      warn: (message) => warnings.push(message),
    },
  );
}

/** The statements that a refusal says are missing. */
async function missing(storageKeyArn?: string): Promise<object[]> {
  const refused = await check(storageKeyArn).then(
    () => expect.unreachable("not refused"),
    (error: unknown) => error as { code: string; retryable: boolean; detail: string },
  );
  expect(refused).toMatchObject({ code: "config", retryable: false });
  return JSON.parse(refused.detail.slice(refused.detail.indexOf("[")));
}

test("a default key of EBS that Auto Scaling cannot use is refused, until it has what the refusal says", async () => {
  defaultKey = KEY;
  const wanted = await missing();
  await expect(check()).rejects.toThrow(`the account's default key of EBS ${KEY} does not let`);
  // Without the right to create grants no instance starts.
  statements = [ACCOUNT_ADMINISTERS, ...wanted.slice(0, 1)];
  await expect(check()).rejects.toThrow("Auto Scaling");
  statements = [ACCOUNT_ADMINISTERS, ...wanted];
  await check();
  expect(warnings).toEqual([]);
});

test("the account's principals may use it through EC2 alone, as EBS's own key has it", async () => {
  defaultKey = KEY;
  const actions = ["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey*"];
  const through = (service: string) => ({
    ...{ Effect: "Allow", Principal: { AWS: "*" }, Action: actions, Resource: "*" },
    Condition: {
      StringEquals: {
        "kms:CallerAccount": ACCOUNT,
        "kms:ViaService": `${service}.${REGION}.amazonaws.com`,
      },
    },
  });
  statements = [through("ec2")];
  await check();
  statements = [through("s3")];
  await missing();
});

test("a grant to Auto Scaling's role counts, and a key of AWS's needs nothing", async () => {
  defaultKey = KEY;
  grants = [{ GranteePrincipal: AUTO_SCALING }];
  await check();
  grants = [];
  keyManager = "AWS";
  await check();
});

test("a tenant's key that CloudWatch Logs cannot use is refused, until it has what the refusal says", async () => {
  const [statement] = await missing(KEY);
  expect(statement).toMatchObject({
    Principal: { Service: `logs.${REGION}.amazonaws.com` },
    Condition: { ArnEquals: { "kms:EncryptionContext:aws:logs:arn": LOG_GROUP_ARN } },
  });
  statements = [ACCOUNT_ADMINISTERS, statement as object];
  await check(KEY);
  // As in AWS's example: for every log group of the account.
  const everyGroup = `arn:aws:logs:${REGION}:${ACCOUNT}:*`;
  const Condition = { ArnLike: { "kms:EncryptionContext:aws:logs:arn": everyGroup } };
  statements = [{ ...statement, Condition }];
  await check(KEY);
  const elsewhere = { ...Condition.ArnLike, "aws:SourceAccount": "444455556666" };
  statements = [{ ...statement, Condition: { ArnLike: elsewhere } }];
  await missing(KEY);
  expect(warnings).toEqual([]);
});

test("a denial counts more than what is allowed", async () => {
  const [statement] = await missing(KEY);
  const denied = { Effect: "Deny", Principal: "*", Action: "kms:Decrypt", Resource: "*" };
  statements = [statement as object, denied];
  await missing(KEY);
});

test("what cannot be read or evaluated is reported, and refuses nothing", async () => {
  defaultKey = KEY;
  fails = Object.assign(new Error("no"), { name: "AccessDeniedException" });
  await check(KEY);
  expect(warnings).toEqual([
    `the policy of ${KEY} could not be checked: AccessDeniedException: no`,
    "the account's default key of EBS could not be checked: AccessDeniedException: no",
  ]);
  fails = undefined;
  warnings = [];
  const Condition = { IpAddress: { "aws:SourceIp": "10.0.0.0/8" } };
  statements = [{ ...ACCOUNT_ADMINISTERS, Principal: { AWS: AUTO_SCALING }, Condition }];
  await check();
  expect(warnings).toEqual([expect.stringContaining("IpAddress is not evaluated here")]);
});
