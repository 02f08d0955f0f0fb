import { defineContract } from "../contract.ts";
import { AccessReviewRecord } from "./access-review.ts";

export const createAccessReview = defineContract({
  name: "accessReview.create",
  method: "POST",
  path: "/v1/access-review",
  summary: "Record an access review",
  description:
    "Records that the caller reviewed the access that there is now. The audit log has an event with the counts.",
  tag: "Access review",
  permission: "member:write",
  successStatus: 201,
  response: AccessReviewRecord,
});
