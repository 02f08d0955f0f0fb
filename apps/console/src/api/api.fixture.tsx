/** The API as components find it in tests: what was answered before, and what it is asked to do. */
import { MantineProvider } from "@mantine/core";
import { leastRoleWith, type Permission, permissionsOf, type Role } from "@millrace/domain";
import type { AppRouter } from "@millrace/router";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createTRPCClient } from "@trpc/client";
import { observable } from "@trpc/server/observable";
import { createTRPCOptionsProxy } from "@trpc/tanstack-react-query";
import type { ReactNode } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { TRPCProvider } from "./client.tsx";

interface Call {
  /** `cluster.delete`. */
  readonly path: string;
  readonly input: unknown;
}

export class FakeApi {
  readonly calls: Call[] = [];
  readonly queryClient = new QueryClient();
  readonly #client = createTRPCClient<AppRouter>({
    links: [
      () =>
        ({ op: { path, input } }) =>
          observable((observer) => {
            this.calls.push({ path, input });
            observer.next({ result: { data: {} } });
            observer.complete();
          }),
    ],
  });
  /** Keys of what is answered: `queryClient.setQueryData(trpc.….queryKey(…), …)`. */
  readonly trpc = createTRPCOptionsProxy<AppRouter>({
    client: this.#client,
    queryClient: this.queryClient,
  });

  /** Who looks at it: somebody of that role. */
  signIn(role: Role): void {
    this.#signIn(role, { permissions: [...permissionsOf(role)] });
  }

  /** Somebody with a custom role. */
  signInWith(...permissions: Permission[]): void {
    this.#signIn(leastRoleWith(permissions), { permissions });
  }

  /** As an API process answers that does not know custom roles. */
  signInToOldApi(role: Role): void {
    this.#signIn(role, {});
  }

  #signIn(role: Role, rest: { permissions?: Permission[] }): void {
    const organization = { id: "org_test", name: "Test" };
    this.queryClient.setQueryData(this.trpc.account.me.queryKey({}), {
      user: { id: "usr_test", email: "ada@example.com", name: "Ada" },
      api_key: null,
      service_account: null,
      organization: { ...organization, slug: "test" },
      role,
      custom_role: null,
      impersonation: null,
      organizations: [{ ...organization, role }],
      ...(rest as { permissions: Permission[] }),
    });
  }

  render(node: ReactNode): string {
    return renderToStaticMarkup(
      <MantineProvider>
        <QueryClientProvider client={this.queryClient}>
          <TRPCProvider trpcClient={this.#client} queryClient={this.queryClient}>
            {node}
          </TRPCProvider>
        </QueryClientProvider>
      </MantineProvider>,
    );
  }
}
