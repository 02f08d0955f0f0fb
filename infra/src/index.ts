export { checkPolicies, type PolicyContext, type PolicyFinding } from "./policy/index.ts";
