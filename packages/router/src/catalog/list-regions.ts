import { listRegions as contract } from "@millrace/contract";
import { REGIONS, regionFacts } from "@millrace/domain";
import { procedure } from "../procedure.ts";

export const listRegionsProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(({ ctx }) => ({
    items: REGIONS.map((id) => {
      const { title, provider, zones } = regionFacts(id);
      const available = ctx.core.drivers[provider === "local" ? "localAvailable" : "awsAvailable"];
      return { id, title, provider, zones: [...zones], available };
    }),
  }));
