"use client";

import { ApiFailure } from "../api/client.tsx";
import { PROOF_NEEDED, proveIdentity } from "../session/proof.ts";

export interface PlatformCluster {
  readonly id: string;
  readonly name: string;
  readonly region: string;
  readonly size: string;
  readonly phase: string;
  readonly ready: "True" | "False" | "Unknown" | null;
  readonly reason: string | null;
}

export interface PlatformOrganization {
  readonly id: string;
  readonly name: string;
  readonly slug: string;
  readonly created_at: string;
  readonly members: number;
  readonly clusters: readonly PlatformCluster[];
}

export interface OrganizationPage {
  readonly items: readonly PlatformOrganization[];
  /** `after` of the next page; null on the last one. */
  readonly next: string | null;
  /** Whether this installation allows impersonations that write. */
  readonly may_write: boolean;
}

export interface NewImpersonation {
  readonly organization_id: string;
  /** The first owner by default. */
  readonly member_email?: string;
  readonly reason: string;
  readonly write: boolean;
}

/** The API answered with an error; `status` is the HTTP status. */
export class PlatformFailure extends ApiFailure {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export function listOrganizations(after: string): Promise<OrganizationPage> {
  return send("GET", `organizations?after=${encodeURIComponent(after)}`);
}

/** Asks for a proof of identity if the API requires one. */
export async function beginImpersonation(input: NewImpersonation): Promise<void> {
  await send("POST", "impersonations", input);
}

export async function endImpersonation(): Promise<void> {
  await send("POST", "impersonations/end", {});
}

async function send<T>(method: string, path: string, body?: object, isRetry = false): Promise<T> {
  const reply = await fetch(`/api/platform/${path}`, {
    method,
    ...(body && {
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  });
  if (reply.status === 204) return undefined as T;
  const answer = await reply.json();
  if (reply.ok) return answer as T;
  const { code, detail = "The request failed.", remedy = "" } = answer;
  if (code === PROOF_NEEDED && !isRetry && (await proveIdentity())) {
    return send(method, path, body, true);
  }
  throw new PlatformFailure(reply.status, `${detail} ${remedy}`.trim());
}
