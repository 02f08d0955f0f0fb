/**
 * `node with-aws-tools.ts <command> …`: runs a command with the paths of Terraform and of a folder
 * with its AWS provider in its environment, where they are found. Installs nothing; a command that
 * needs one of them says so itself.
 */
import { spawnSync } from "node:child_process";
import { terraformPaths } from "./aws-tools.ts";

const [command, ...args] = process.argv.slice(2);
if (command === undefined) {
  console.error("with-aws-tools: name a command");
  process.exit(2);
}
const { status, error } = spawnSync(command, args, {
  stdio: "inherit",
  env: { ...process.env, ...terraformPaths() },
});
if (error) throw error;
process.exitCode = status ?? 1;
