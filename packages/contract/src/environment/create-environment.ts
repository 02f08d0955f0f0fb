import { defineContract } from "../contract.ts";
import { Environment, environmentName } from "./environment.ts";

export const createEnvironment = defineContract({
  name: "environment.create",
  method: "POST",
  path: "/v1/environments",
  summary: "Create an environment",
  tag: "Environments",
  permission: "environment:write",
  successStatus: 201,
  body: { name: environmentName },
  response: Environment,
});
