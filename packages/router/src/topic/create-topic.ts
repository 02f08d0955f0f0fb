import { createTopic as contract } from "@millrace/contract";
import { createTopic } from "@millrace/core";
import { procedure } from "../procedure.ts";
import { presentTopic } from "./present-topic.ts";

export const createTopicProcedure = procedure(contract.permission)
  .input(contract.input)
  .output(contract.response)
  .mutation(async ({ ctx, input }) => {
    const { cluster_id: clusterId, configs: given, ...topic } = input;
    const configs = ownConfigs(given);
    return presentTopic(
      await createTopic(ctx.core, ctx.principal, { clusterId, ...topic, configs }),
    );
  });

/** Without those that ask for the default, which a new topic has anyway. */
function ownConfigs(given: Readonly<Record<string, string | null>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(given).flatMap(([name, value]) => (value === null ? [] : [[name, value]])),
  );
}
