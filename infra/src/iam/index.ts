export { permissionsBoundary } from "./permissions-boundary.ts";
export { provisionerBoundary, provisionerPolicies } from "./provisioner-policies.ts";
export { sessionPolicy } from "./session-policy.ts";
export { trustPolicy } from "./trust-policy.ts";
