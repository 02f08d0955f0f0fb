import type { Environment, EnvironmentId, Principal } from "@millrace/domain";
import type { Core } from "../core.ts";
import { requireEnvironment } from "./require-environment.ts";

/** Throws `not_found`. */
export async function getEnvironment(
  core: Core,
  principal: Principal,
  id: EnvironmentId,
): Promise<Environment> {
  return requireEnvironment(core, principal, id);
}
