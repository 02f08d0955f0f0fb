import { SecretsManagerClient } from "@aws-sdk/client-secrets-manager";
import type { ClusterId } from "@millrace/domain";
import { expect, test } from "vitest";
import { answering } from "../../test/answering.ts";
import type { LinkCredentials } from "../control-link.ts";
import { issueCredentials } from "./issue-credentials.ts";

const clusterId: ClusterId = "clu_01jd00000000000000000000aa";
const slots = [0, 1].map((brokerId) => ({ clusterId, brokerId }));
const secretOf = (brokerId: number) => `millrace-a/link-${brokerId}`;

function collector() {
  const done: string[] = [];
  const credentials: LinkCredentials = {
    async issue({ brokerId }) {
      done.push(`issue ${brokerId}`);
      return `mlk_${brokerId}`;
    },
    async withdraw({ brokerId }, credential) {
      done.push(`withdraw ${brokerId} ${credential}`);
    },
    revoke: () => Promise.reject(new Error("nothing is to be revoked")),
  };
  return { done, credentials };
}

test("the control plane knows each credential before its slot can read it", async () => {
  const { done, credentials } = collector();
  const secrets = answering(SecretsManagerClient, ({ input }: { input: PutInput }) => {
    done.push(`put ${input.SecretId} ${input.SecretString}`);
  });
  await issueCredentials(secrets, { credentials, slots, secretOf });
  expect(done).toEqual([
    "issue 0",
    "put millrace-a/link-0 mlk_0",
    "issue 1",
    "put millrace-a/link-1 mlk_1",
  ]);
});

test("a secret that cannot be written ends it, and no slot loses the credential that it uses", async () => {
  const { done, credentials } = collector();
  const secrets = answering(SecretsManagerClient, () => Promise.reject(new Error("no key")));
  await expect(issueCredentials(secrets, { credentials, slots, secretOf })).rejects.toThrow(
    "no key",
  );
  expect(done).toEqual(["issue 0", "withdraw 0 mlk_0"]);
});

interface PutInput {
  readonly SecretId: string;
  readonly SecretString: string;
}
