import { isSet } from "../document.ts";
import { each, type PolicyRule } from "../rule.ts";

/** Every role has a permissions boundary; long-lived users and keys do not exist. */
export const permissionsBoundary: PolicyRule = {
  name: "permissions-boundary",
  check: (document) => [
    ...each(document, ["aws_iam_role"], ({ values }) =>
      isSet(values.permissions_boundary)
        ? undefined
        : "name the installation's boundary policy in permissions_boundary",
    ),
    ...each(
      document,
      ["aws_iam_user", "aws_iam_access_key"],
      () => "use a role: users and their keys live for ever",
    ),
  ],
};
