/**
 * What clusters on AWS are made with. A door of its own: behind it stand the stacks and AWS's
 * clients, 200 MB that an installation without an account never loads.
 */
export { AwsDriver, type AwsDriverOptions } from "./aws/aws-driver.ts";
export { OfflinePlanner } from "./aws/offline-planner.ts";
export {
  fileWrappingKey,
  kmsWrappingKey,
  replacedWrappingKeys,
  StateSeal,
} from "./terraform/state-seal.ts";
export type { TerraformProgram } from "./terraform/terraform-program.ts";
