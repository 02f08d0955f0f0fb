import { z } from "zod";
import { defineContract } from "../contract.ts";
import { Session } from "./session.ts";

export const listSessions = defineContract({
  name: "session.list",
  method: "GET",
  path: "/v1/me/sessions",
  summary: "List sessions",
  description:
    "Where the signed-in user is signed in, most recently used first. Empty for an API key.",
  tag: "Account",
  permission: "account:read",
  successStatus: 200,
  response: z.object({ items: z.array(Session) }).meta({ id: "SessionList" }),
});
