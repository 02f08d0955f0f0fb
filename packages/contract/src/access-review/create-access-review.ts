import { z } from "zod";
import { defineContract } from "../contract.ts";
import { AccessReviewRecord } from "./access-review.ts";

export const createAccessReview = defineContract({
  name: "accessReview.create",
  method: "POST",
  path: "/v1/access-review",
  summary: "Record an access review",
  description:
    "Records that the caller reviewed the access with this digest. If it has changed since, the answer is 409 (access_changed). The audit log has an event with the counts and the digest.",
  tag: "Access review",
  permission: "access:review",
  successStatus: 201,
  body: {
    digest: z
      .string()
      .regex(/^[0-9a-f]{64}$/, "must be the digest of the access review")
      .meta({ description: "Digest of the review that the caller read" }),
  },
  response: AccessReviewRecord,
});
