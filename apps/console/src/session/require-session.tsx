"use client";

import { useQuery } from "@tanstack/react-query";
import { usePathname, useRouter } from "next/navigation";
import { type ReactNode, useEffect } from "react";
import { statusOf, useTRPC } from "../api/client.tsx";
import { PageTitle } from "../shell/page-title.tsx";

/**
 * Sends visitors without a session to the sign-in page. Pages do not wait for the answer: what
 * they ask for is refused by the API just the same.
 */
export function RequireSession({ children }: { children: ReactNode }) {
  const trpc = useTRPC();
  const router = useRouter();
  const path = usePathname();
  const { error } = useQuery(trpc.account.me.queryOptions({}));
  const signedOut = statusOf(error) === 401;
  // Without an impersonation, every tenant route answers a platform operator with 404.
  const isOperator = statusOf(error) === 404;
  useEffect(() => {
    if (signedOut) router.replace(`/sign-in?then=${encodeURIComponent(path)}`);
    if (isOperator) router.replace("/platform");
  }, [signedOut, isOperator, router, path]);
  if (isOperator) return <PageTitle>Organizations</PageTitle>;
  return signedOut ? <PageTitle>Sign in</PageTitle> : children;
}
