import { generateKeyPairSync, randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { findSecrets } from "./secrets.ts";

// Made here, since the gate searches this file too.
const random = () => randomBytes(32).toString("base64url");
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const sec1 = privateKey.export({ type: "sec1", format: "pem" }).toString();
const accessKey = `AKIA${"IOSFODNN7".replaceAll(/\d/g, "A")}${"Q".repeat(7)}`;

describe("findSecrets", () => {
  it.each([
    ["private key", pem],
    ["private key", sec1],
    ["private key", `key: ${JSON.stringify(pem)}`],
    ["AWS access key", `aws_access_key_id = ${accessKey}`],
    ["AWS access key", `"${accessKey.replace("AKIA", "ASIA")}"`],
    ["AWS secret access key", `AWS_SECRET_ACCESS_KEY=${"a1/B".repeat(10)}`],
    ["AWS secret access key", `secretAccessKey: awsSecretAccessKey = "${"a1+B".repeat(10)}"`],
    ["Millrace API key", `Authorization: Bearer mrk_${random()}`],
    ["Millrace invitation", `https://console/invitations?token=mri_${random()}`],
    ["credential of a broker", `authorization: Bearer mlk_${random()}`],
  ])("finds a %s", (kind, text) => {
    expect(findSecrets(`first line\n${text}\n`)).toEqual([{ kind, line: 2 }]);
  });

  it("finds every one, in order", () => {
    const text = `mrk_${random()}\nnothing\nmri_${random()} mrk_${random()}`;
    expect(findSecrets(text).map(({ line }) => line)).toEqual([1, 3, 3]);
  });

  it.each([
    "Bearer mrk_…",
    "mrk_ and mri_ are the prefixes",
    // As long as an identifier may be, but no secret.
    `mrk_${"a".repeat(44)}`,
    "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUKq0eYPZ9m2pW3r1yJ8fZs4xvNfUw\n",
    "text.includes('-----BEGIN PRIVATE KEY-----')",
    "AKIA is how access keys begin",
    "aws_secret_access_key = <yours>",
  ])("takes nothing else for one: %s", (text) => {
    expect(findSecrets(text)).toEqual([]);
  });
});
