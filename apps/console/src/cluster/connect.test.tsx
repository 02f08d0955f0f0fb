import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { localCluster } from "./cluster.fixture.ts";
import { Connect } from "./connect.tsx";

const PLAIN = {
  name: "kafka",
  protocol: "PLAINTEXT",
  bootstrap_servers: "127.0.0.1:19092",
} as const;
const TLS = {
  name: "kafka-tls",
  protocol: "SASL_SSL",
  bootstrap_servers: "127.0.0.1:20092",
} as const;

function shown(
  endpoints: (typeof PLAIN | typeof TLS)[],
  role: "owner" | "viewer" = "owner",
): string {
  const api = new FakeApi();
  api.signIn(role);
  const cluster = localCluster();
  const input = { cluster_id: cluster.metadata.id };
  api.queryClient.setQueryData(api.trpc.cluster.get.queryKey(input), {
    ...cluster,
    status: { ...cluster.status, endpoints },
  });
  return api.render(<Connect clusterId={cluster.metadata.id} />);
}

test("the endpoint without TLS comes first, and the other is one click away", () => {
  const text = shown([PLAIN, TLS]);
  expect(text).toContain("Without TLS");
  expect(text).toContain("TLS and password");
  expect(text).toContain(PLAIN.bootstrap_servers);
  expect(text).not.toContain("Download CA certificate");
});

test("the endpoint with TLS comes with the CA certificate, and a password for whoever may set one", () => {
  const text = shown([TLS]);
  expect(text).toContain(TLS.bootstrap_servers);
  expect(text).toMatch(
    /href="\/v1\/clusters\/clu_\w+\/ca-certificate"[^>]*download="ca.pem"|download="ca.pem"[^>]*href="\/v1\/clusters\/clu_\w+\/ca-certificate"/,
  );
  expect(text).toContain("New password for");
  expect(text).toContain("Topic authorization failed");
  expect(text).toMatch(/href="\/clusters\/clu_\w+\/access\/acls"/);
  expect(shown([TLS], "viewer")).not.toContain("New password for");
});
