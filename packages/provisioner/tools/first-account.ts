/**
 * `node first-account.ts`, before the worker starts on AWS: makes the first owner, tenant and
 * API key and puts their credentials into the secret that MILLRACE_FIRST_ACCOUNT_ARN names. Where
 * the secret has a value it does nothing, so deployments leave passwords alone. Not to be run by two
 * at once: the worker's service has one task at a time.
 */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import {
  DescribeSecretCommand,
  PutSecretValueCommand,
  SecretsManagerClient,
} from "@aws-sdk/client-secrets-manager";

const BOOTSTRAP = fileURLToPath(new URL("../../../apps/api/src/bootstrap.ts", import.meta.url));
const BOOTSTRAP_MS_MAX = 60_000;

const secretId = process.env.MILLRACE_FIRST_ACCOUNT_ARN;
if (!secretId) {
  console.error("MILLRACE_FIRST_ACCOUNT_ARN is not set: name the secret for the credentials");
  process.exit(2);
}
const endpoint = process.env.MILLRACE_AWS_ENDPOINT;
const secrets = new SecretsManagerClient(endpoint ? { endpoint } : {});

const { VersionIdsToStages } = await secrets.send(
  new DescribeSecretCommand({ SecretId: secretId }),
);
if (Object.keys(VersionIdsToStages ?? {}).length > 0) {
  console.log("the first account is there");
} else {
  const { stdout } = await promisify(execFile)(process.execPath, [BOOTSTRAP], {
    timeout: BOOTSTRAP_MS_MAX,
  });
  await secrets.send(
    new PutSecretValueCommand({ SecretId: secretId, SecretString: stdout.trim() }),
  );
  console.log(`the first account is made; its credentials are in ${secretId}`);
}
