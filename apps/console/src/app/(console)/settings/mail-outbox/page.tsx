import type { Metadata } from "next";
import { OutgoingMailList } from "../../../../outgoing-mail/outgoing-mail-list.tsx";

export const metadata: Metadata = { title: "Mail outbox" };

export default function Page() {
  return <OutgoingMailList />;
}
