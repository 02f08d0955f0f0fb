import { expect, test, vi } from "vitest";
import { FakeApi } from "../api/api.fixture.tsx";
import { changePreview } from "../plan/plan.fixture.ts";
import { inRegion, NEW_CLUSTER } from "./cluster-draft.ts";
import { Review } from "./create-cluster-page.tsx";
import type { ClusterForm } from "./use-cluster-form.ts";

function review(available: boolean, elsewhere = false): string {
  const api = new FakeApi();
  api.queryClient.setQueryData(api.trpc.region.list.queryKey({}), {
    items: [
      { id: "eu-west-1", title: "Ireland", provider: "aws", zones: [], available: elsewhere },
      { id: "eu-central-1", title: "Frankfurt", provider: "aws", zones: [], available },
    ],
  });
  const form: ClusterForm = {
    draft: inRegion({ ...NEW_CLUSTER, name: "orders" }, "eu-central-1"),
    errors: {},
    refusal: null,
    preview: changePreview(),
    busy: false,
    set: vi.fn(),
    leave: vi.fn(),
    review: vi.fn(),
    reconsider: vi.fn(),
    create: vi.fn(),
  };
  return api.render(<Review form={form} />);
}

test("without an AWS account the plan is shown and creation is not offered", () => {
  const text = review(false);
  expect(text).not.toContain("Create cluster");
  expect(text).toContain("Preview only: no AWS account configured");
  expect(text).toContain("MILLRACE_AWS_ROLE_ARN");
});

test("in another region than the installation's the plan is shown, and that region is named", () => {
  const text = review(false, true);
  expect(text).not.toContain("Create cluster");
  expect(text).toContain("Preview only: this installation creates clusters in eu-west-1");
  expect(text).toContain("choose eu-west-1");
  expect(text).not.toContain("MILLRACE_AWS_ROLE_ARN");
});

test("with an account the reviewed plan can be created", () => {
  const text = review(true);
  expect(text).toContain("Create cluster");
  expect(text).not.toContain("Preview only");
});
