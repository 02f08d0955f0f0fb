import { readFile } from "node:fs/promises";
import { contracts } from "@millrace/contract";
import { expect, test } from "vitest";
import { openApiDocument, openApiText } from "./openapi.ts";
import { appRouter } from "./router.ts";

const procedures = appRouter._def.procedures as unknown as Record<
  string,
  { _def: { type: string } }
>;

test("every contract has its procedure, and every procedure its contract", () => {
  expect(Object.keys(procedures).sort()).toEqual(contracts.map((each) => each.name).sort());
});

test.each(contracts)("$name is of the type that its method calls for", (contract) => {
  const expected = contract.stream
    ? "subscription"
    : contract.method === "GET"
      ? "query"
      : "mutation";
  expect(procedures[contract.name]?._def.type).toBe(expected);
});

test("the OpenAPI document describes every contract, with named components", () => {
  const document = openApiDocument("http://localhost:4000");
  expect(document.openapi).toBe("3.1.0");
  const paths = (document.paths ?? {}) as Record<string, Record<string, OpenApiOperation>>;
  const operations = Object.values(paths).flatMap((path) => Object.values(path));
  expect(operations.map((each) => each.operationId).sort()).toEqual(
    contracts.map((each) => each.name).sort(),
  );
  const names = Object.keys(document.components?.schemas ?? {});
  expect(names).toEqual(expect.arrayContaining(["Cluster", "Operation", "Topic", "Problem"]));
  const list = paths["/v1/clusters"]?.get?.parameters;
  expect(list).toContainEqual(expect.objectContaining({ in: "query", name: "page_size" }));
  const remove = paths["/v1/clusters/{cluster_id}"]?.delete?.parameters;
  expect(remove).toContainEqual(expect.objectContaining({ in: "header", name: "If-Match" }));
});

test("the example of a creation is a request that is accepted as it stands", () => {
  const { paths } = JSON.parse(openApiText());
  const { example } = paths["/v1/clusters"].post.requestBody.content["application/json"];
  expect(example).toMatchObject({ name: "orders", region: "local" });
  for (const { input, example: body } of contracts) {
    if (body !== undefined) expect(input.safeParse(body).error).toBeUndefined();
  }
});

test("requests are closed, answers are open", () => {
  const document = JSON.stringify(openApiDocument("http://localhost:4000"));
  const { paths, components } = JSON.parse(document);
  const body = paths["/v1/clusters"].post.requestBody.content["application/json"].schema;
  expect(body.$ref).toBe("#/components/schemas/ClusterCreateRequest");
  expect(components.schemas.ClusterCreateRequest.additionalProperties).toBe(false);
  expect(components.schemas.Cluster.additionalProperties).toBeUndefined();
});

test("a reference with a description of its own does not close the object that it names", () => {
  const { components } = JSON.parse(openApiText());
  expect(components.schemas.Size.properties.cost.$ref).toBe("#/components/schemas/CostEstimate");
  expect(components.schemas.Size.properties.cost.additionalProperties).toBeUndefined();
});

interface OpenApiOperation {
  operationId: string;
  parameters?: object[];
}

test("the committed document is the present one", async () => {
  const path = new URL("../../../apps/terraform-provider/openapi.json", import.meta.url);
  // Stale: run `node packages/router/tools/write-openapi.ts`.
  expect(await readFile(path, "utf8")).toBe(openApiText());
});
