/**
 * `node tools/write-openapi.ts`: writes the OpenAPI document from which the Terraform provider's
 * client is generated. A test says when it is not current.
 */
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { openApiText } from "../src/openapi.ts";

const path = fileURLToPath(
  new URL("../../../apps/terraform-provider/openapi.json", import.meta.url),
);
await writeFile(path, openApiText());
process.stdout.write(`wrote ${path}\n`);
