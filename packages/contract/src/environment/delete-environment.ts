import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";

export const deleteEnvironment = defineContract({
  name: "environment.delete",
  method: "DELETE",
  path: "/v1/environments/{environment_id}",
  summary: "Delete an environment",
  description: "Fails while the environment has clusters.",
  tag: "Environments",
  permission: "environment:write",
  successStatus: 204,
  stepUp: true,
  params: { environment_id: pathId("env") },
  response: z.null(),
});
