import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Environment, environmentName } from "./environment.ts";

export const updateEnvironment = defineContract({
  name: "environment.update",
  method: "PATCH",
  path: "/v1/environments/{environment_id}",
  summary: "Rename an environment",
  tag: "Environments",
  permission: "environment:write",
  successStatus: 200,
  params: { environment_id: pathId("env") },
  body: { name: environmentName.optional() },
  response: Environment,
});
