import { defineContract } from "../contract.ts";
import { AccessReview } from "./access-review.ts";

export const getAccessReview = defineContract({
  name: "accessReview.get",
  method: "GET",
  path: "/v1/access-review",
  summary: "Review access",
  description:
    "Every way into the organization: members, service accounts, API keys that are neither revoked nor expired, pending invitations, and single sign-on.",
  tag: "Access review",
  permission: "access:review",
  successStatus: 200,
  response: AccessReview,
});
