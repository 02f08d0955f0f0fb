import { defineContract } from "../contract.ts";
import { pageOf, pageQuery } from "../page.ts";
import { OutgoingMail } from "./outgoing-mail.ts";

export const listOutgoingMails = defineContract({
  name: "outgoingMail.list",
  method: "GET",
  path: "/v1/outgoing-mails",
  summary: "List outgoing mails",
  description: "The mail outbox, newest first, without texts. Millrace sends no mail.",
  tag: "Members",
  permission: "mail:read",
  successStatus: 200,
  query: pageQuery,
  response: pageOf(OutgoingMail).meta({ id: "OutgoingMailPage" }),
});
