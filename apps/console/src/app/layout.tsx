import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "@fontsource-variable/inter";
import "@fontsource-variable/jetbrains-mono";
import "uplot/dist/uPlot.min.css";
import "./globals.css";
import { ColorSchemeScript, MantineProvider, mantineHtmlProps } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import type { Metadata } from "next";
import { headers } from "next/headers";
import type { ReactNode } from "react";
import { ApiProvider } from "../api/client.tsx";
import { NONCE_HEADER } from "../api/page-policy.ts";
import { theme } from "./theme.ts";

export const metadata: Metadata = {
  description: "Kafka as a managed service",
};

export default async function RootLayout({ children }: { children: ReactNode }) {
  // Reading it also keeps Next from rendering pages ahead, without a nonce.
  const nonce = (await headers()).get(NONCE_HEADER) ?? "";
  return (
    <html lang="en" {...mantineHtmlProps}>
      <head>
        <ColorSchemeScript defaultColorScheme="auto" nonce={nonce} />
      </head>
      <body>
        <MantineProvider theme={theme} defaultColorScheme="auto">
          <Notifications position="bottom-right" />
          <ApiProvider>{children}</ApiProvider>
        </MantineProvider>
      </body>
    </html>
  );
}
