import { listRegions as contract } from "@millrace/contract";
import { REGIONS, regionFacts } from "@millrace/domain";
import { procedure } from "../procedure.ts";

export const listRegionsProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .query(({ ctx }) => ({
    items: REGIONS.map((id) => {
      const { title, provider, zones } = regionFacts(id);
      const { localAvailable, awsRegion } = ctx.core.drivers;
      const available = provider === "local" ? localAvailable : id === awsRegion;
      return { id, title, provider, zones: [...zones], available };
    }),
  }));
