import type { Environment as EnvironmentShape } from "@millrace/contract";
import type { Environment } from "@millrace/domain";

export function presentEnvironment(environment: Environment): EnvironmentShape {
  return {
    id: environment.id,
    name: environment.name,
    created_at: environment.createdAt.toISOString(),
  };
}
