import { expect, test } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { localCluster } from "../cluster/cluster.fixture.ts";
import { UserList } from "./user-list.tsx";

test("only the cluster's first user is marked as a super user", () => {
  const api = new FakeApi();
  api.signIn("owner");
  const cluster = localCluster();
  const input = { cluster_id: cluster.metadata.id };
  api.queryClient.setQueryData(api.trpc.cluster.get.queryKey(input), cluster);
  const users = ["admin", "alice"].map((name) => ({
    name,
    principal: `User:${name}`,
    mechanisms: ["SCRAM-SHA-512" as const],
  }));
  api.queryClient.setQueryData(api.trpc.user.list.infiniteQueryKey(input), {
    pages: [{ items: users }],
    pageParams: [null],
  });
  const text = api.render(<UserList clusterId={cluster.metadata.id} />);
  expect(text).toMatch(/>admin<.*Super user.*>alice</);
  expect(text.match(/Super user/g)).toHaveLength(1);
});
