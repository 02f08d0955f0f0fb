/**
 * `node with-aws-tools.ts <command> …`: runs a command with the paths of Terraform and of a folder
 * with its AWS provider in its environment, where they are found. Installs nothing; a command that
 * needs one of them says so itself. A Terraform that is too old ends it here: what is behind would
 * pass on that program's complaints about configurations that it does not understand.
 */
import { spawnSync } from "node:child_process";
import { findTerraform, TERRAFORM_REMEDY, terraformPaths } from "./aws-tools.ts";
import { printError } from "./terminal.ts";

const [command, ...args] = process.argv.slice(2);
if (command === undefined) {
  console.error("usage: with-aws-tools <command> …");
  process.exit(2);
}
const terraform = findTerraform(process.env);
if (terraform.refusal !== undefined) {
  printError(terraform.refusal, TERRAFORM_REMEDY);
  process.exit(1);
}
const { status, error } = spawnSync(command, args, {
  stdio: "inherit",
  env: { ...process.env, ...terraformPaths(terraform) },
});
if (error) throw error;
process.exitCode = status ?? 1;
