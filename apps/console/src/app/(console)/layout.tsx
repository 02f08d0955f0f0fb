import type { ReactNode } from "react";
import { ProofDialog } from "../../session/proof-dialog.tsx";
import { RequireSession } from "../../session/require-session.tsx";
import { SsoNotice } from "../../session/sso-notice.tsx";
import { Shell } from "../../shell/shell.tsx";

export default function ConsoleLayout({ children }: { children: ReactNode }) {
  return (
    <RequireSession>
      <Shell>{children}</Shell>
      <ProofDialog />
      <SsoNotice />
    </RequireSession>
  );
}
