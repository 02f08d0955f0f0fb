import type { ReactNode } from "react";
import { RequireSession } from "../../session/require-session.tsx";
import { Shell } from "../../shell/shell.tsx";

export default function ConsoleLayout({ children }: { children: ReactNode }) {
  return (
    <RequireSession>
      <Shell>{children}</Shell>
    </RequireSession>
  );
}
