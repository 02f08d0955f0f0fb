import { expect, test } from "vitest";
import { readEnv } from "./env.ts";

const DATABASE_URL = "postgres://localhost/millrace";

test("gives brokers what they need and none of the product's secrets", () => {
  const env = readEnv({
    DATABASE_URL,
    MILLRACE_AUTH_SECRET: "secret",
    PATH: "/bin",
    AWS_REGION: "eu-central-1",
    RUST_LOG: "info",
  });
  expect(env.brokerEnvironment).toEqual({
    PATH: "/bin",
    AWS_REGION: "eu-central-1",
    RUST_LOG: "info",
  });
  expect(env.stopBrokersOnExit).toBe(false);
});

test("names what is missing", () => {
  expect(() => readEnv({})).toThrow("DATABASE_URL");
  expect(() => readEnv({ DATABASE_URL, MILLRACE_STOP_BROKERS_ON_EXIT: "yes" })).toThrow(
    "MILLRACE_STOP_BROKERS_ON_EXIT",
  );
});

test("an account on AWS is whole, or refused by the names of what is missing", () => {
  const role = {
    DATABASE_URL,
    MILLRACE_AWS_ROLE_ARN: "arn:aws:iam::123456789012:role/provisioner",
  };
  expect(readEnv({ DATABASE_URL, MILLRACE_AWS_ROLE_ARN: "" }).aws).toBeUndefined();
  expect(() => readEnv(role)).toThrow(
    /MILLRACE_AWS_EXTERNAL_ID.*MILLRACE_AWS_LINK_SERVICE.*MILLRACE_GATEWAY_URL/,
  );
  const rest = {
    ...role,
    MILLRACE_AWS_EXTERNAL_ID: "external",
    MILLRACE_AWS_ARTEFACT_BUCKET: "builds",
    MILLRACE_AWS_AMI_ID: "ami-0123456789abcdef0",
    MILLRACE_AWS_PERMISSIONS_BOUNDARY_ARN: "arn:aws:iam::123456789012:policy/boundary",
    MILLRACE_AWS_LINK_SERVICE: "com.amazonaws.vpce.eu-central-1.vpce-svc-0123456789abcdef0",
    MILLRACE_AWS_LINK_DOMAIN: "link.millrace.example.com",
    MILLRACE_AWS_LINK_ZONES: "eu-central-1a, eu-central-1b",
    MILLRACE_GATEWAY_URL: "http://gateway:4101/",
    MILLRACE_GATEWAY_TOKEN: "token",
  };
  expect(() => readEnv({ ...rest, MILLRACE_AWS_BROKER_ARTEFACT: "broker#abc" })).toThrow("SHA-256");
  const newest = "resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-arm64";
  expect(() => readEnv({ ...rest, MILLRACE_AWS_AMI_ID: newest })).toThrow("must be an AMI's id");
  const sha256 = "a".repeat(64);
  const { aws, gateway } = readEnv({
    ...rest,
    MILLRACE_AWS_BROKER_ARTEFACT: `builds/a#b/broker#${sha256}`,
    AWS_ACCESS_KEY_ID: "key",
    MILLRACE_AUTH_SECRET: "secret",
  });
  expect(aws?.artefact).toMatchObject({ bucket: "builds", key: "builds/a#b/broker", sha256 });
  expect(aws?.controlLink).toMatchObject({ zones: ["eu-central-1a", "eu-central-1b"] });
  expect(aws?.gateways).toEqual({ url: "http://gateway:4101", token: "token" });
  // No broker of this machine could dial the gateways.
  expect(gateway).toBeUndefined();
  expect(aws?.terraform.credentials).toEqual({ AWS_ACCESS_KEY_ID: "key" });
});

test("topics of alarms are ARNs of SNS topics, at most as many as an alarm notifies", () => {
  const topics = (MILLRACE_AWS_ALARM_TOPICS: string) => () =>
    readEnv({ DATABASE_URL, MILLRACE_AWS_ALARM_TOPICS });
  const topic = "arn:aws:sns:eu-central-1:123456789012:alarms";
  expect(topics("")).not.toThrow();
  expect(topics(Array(5).fill(topic).join(", "))).not.toThrow();
  expect(topics(`${topic},alarms`)).toThrow("must be ARNs of SNS topics");
  expect(topics(Array(6).fill(topic).join(","))).toThrow("must be at most 5 topics");
});
