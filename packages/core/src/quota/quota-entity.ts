import { type QuotaEntity, validationFailed } from "@millrace/domain";

/** Throws `validation_failed` where neither a user nor a client id is named. */
export function assertEntity({ user, clientId }: QuotaEntity): void {
  if (user !== undefined || clientId !== undefined) return;
  const message = "is required unless client_id is set: a quota is for a user, a client_id or both";
  throw validationFailed([{ pointer: "/user", code: "required", message }]);
}
