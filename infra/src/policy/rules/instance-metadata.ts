import { blocks } from "../document.ts";
import { each, type PolicyRule } from "../rule.ts";

/** Instance metadata answers to session tokens only (IMDSv2), and not beyond the instance itself. */
export const instanceMetadata: PolicyRule = {
  name: "instance-metadata",
  check: (document) =>
    each(document, ["aws_launch_template", "aws_instance"], ({ values }) => {
      const [options] = blocks(values, "metadata_options");
      const messages: string[] = [];
      if (options?.http_tokens !== "required") {
        messages.push('set metadata_options.http_tokens to "required"');
      }
      if (Number(options?.http_put_response_hop_limit) !== 1) {
        messages.push("set metadata_options.http_put_response_hop_limit to 1");
      }
      return messages;
    }),
};
