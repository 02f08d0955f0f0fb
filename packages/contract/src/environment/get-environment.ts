import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { Environment } from "./environment.ts";

export const getEnvironment = defineContract({
  name: "environment.get",
  method: "GET",
  path: "/v1/environments/{environment_id}",
  summary: "Get an environment",
  tag: "Environments",
  permission: "environment:read",
  successStatus: 200,
  params: { environment_id: pathId("env") },
  response: Environment,
});
