import { listVersions as contract } from "@millrace/contract";
import { BROKER_VERSIONS } from "@millrace/domain";
import { procedure } from "../procedure.ts";

export const listVersionsProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(() => ({
    items: BROKER_VERSIONS.map((id, index) => ({ id, default: index === 0 })),
  }));
