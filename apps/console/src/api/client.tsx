"use client";

import type { Problem } from "@millrace/contract";
import type { AppRouter } from "@millrace/router";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import {
  createTRPCClient,
  httpBatchLink,
  httpSubscriptionLink,
  splitLink,
  TRPCClientError,
} from "@trpc/client";
import { createTRPCContext } from "@trpc/tanstack-react-query";
import { type ReactNode, useState } from "react";
import superjson from "superjson";
import { proofLink } from "./proof-link.ts";

export const { TRPCProvider, useTRPC, useTRPCClient } = createTRPCContext<AppRouter>();

/** Retries that a failed read gets; a refusal is not retried. */
const READ_RETRIES_MAX = 2;
/** Requests in one batch: the API refuses longer ones. */
const BATCH_MAX = 10;

/** Gives the pages the API's procedures, typed. */
export function ApiProvider({ children }: { children: ReactNode }) {
  const [queryClient] = useState(newQueryClient);
  const [client] = useState(() =>
    createTRPCClient<AppRouter>({
      links: [
        proofLink,
        splitLink({
          condition: (operation) => operation.type === "subscription",
          true: httpSubscriptionLink({ url: "/trpc", transformer: superjson }),
          false: httpBatchLink({ url: "/trpc", transformer: superjson, maxItems: BATCH_MAX }),
        }),
      ],
    }),
  );
  return (
    <QueryClientProvider client={queryClient}>
      <TRPCProvider trpcClient={client} queryClient={queryClient}>
        {children}
      </TRPCProvider>
    </QueryClientProvider>
  );
}

function newQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 1_000,
        retry: (count, error) => count < READ_RETRIES_MAX && !isRefusal(error),
      },
    },
  });
}

/** True where a retry cannot help. */
function isRefusal(error: unknown): boolean {
  const status = statusOf(error);
  return status !== undefined && status >= 400 && status < 500 && status !== 429;
}

/** HTTP status of a failed call; nothing where no answer came. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof TRPCClientError ? error.data?.httpStatus : undefined;
}

/** The API's problem document: what was refused, and at which fields. */
export function problemOf(error: unknown): Problem | undefined {
  return error instanceof TRPCClientError ? error.data?.problem : undefined;
}

/** The API's own words where they did not come as a failed call: from a stream, or for one record. */
export class ApiFailure extends Error {
  override readonly name = "ApiFailure";
}

/** What went wrong, in the API's own words. */
export function messageOf(error: unknown): string {
  if (error instanceof TRPCClientError || error instanceof ApiFailure) return error.message;
  return "Cannot reach the API. Try again in a moment.";
}
