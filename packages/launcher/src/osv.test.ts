import { expect, test } from "vitest";
import { findVulnerable, OsvUnreachable } from "./osv.ts";

type Sent = { queries: { package: { purl: string } }[] };

/** OSV as it answers: one result per query, in their order, empty where nothing is known. */
const osv = (async (_url: string, { body }: { body: string }) => {
  const { queries } = JSON.parse(body) as Sent;
  const results = queries.map(({ package: { purl } }) =>
    purl.includes("bad") ? { vulns: [{ id: "GHSA-x", modified: "2026-01-01T00:00:00Z" }] } : {},
  );
  return Response.json({ results });
}) as unknown as typeof fetch;

test("vulnerable packages are named, beyond the first batch too", async () => {
  const good = Array.from({ length: 1_200 }, (_, at) => `pkg:npm/good@${at}`);
  const findings = await findVulnerable([...good, "pkg:cargo/bad@1.0.0"], osv);
  expect(findings).toEqual([{ purl: "pkg:cargo/bad@1.0.0", ids: ["GHSA-x"] }]);
});

test.each<[string, () => Promise<Response>]>([
  ["no answer", () => Promise.reject(new TypeError("fetch failed"))],
  ["a proxy's refusal", async () => new Response("no", { status: 403 })],
  ["too few results", async () => Response.json({ results: [] })],
  ["another document", async () => Response.json({})],
])("%s is not taken for a clean result", async (_, answer) => {
  const asked = findVulnerable(["pkg:npm/good@1"], answer as unknown as typeof fetch);
  await expect(asked).rejects.toThrow(OsvUnreachable);
});
