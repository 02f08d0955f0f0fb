import { z } from "zod";
import { defineContract } from "../contract.ts";
import { pathId } from "../field.ts";
import { OutgoingMail } from "./outgoing-mail.ts";

export const openOutgoingMail = defineContract({
  name: "outgoingMail.open",
  method: "POST",
  path: "/v1/outgoing-mails/{mail_id}/open",
  summary: "Read the text of a mail",
  description:
    "The text has the invitation link. It is stored encrypted and can be read once, as long as the invitation is pending. Not for a role above the caller's own.",
  tag: "Members",
  permission: "member:write",
  stepUp: true,
  successStatus: 200,
  holdsSecret: true,
  params: { mail_id: pathId("mai") },
  response: OutgoingMail.extend({ text: z.string() }).meta({ id: "OutgoingMailWithText" }),
});
