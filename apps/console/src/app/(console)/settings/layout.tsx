import type { ReactNode } from "react";
import { SettingsFrame } from "../../../settings/settings-frame.tsx";

export default function SettingsLayout({ children }: { children: ReactNode }) {
  return <SettingsFrame>{children}</SettingsFrame>;
}
