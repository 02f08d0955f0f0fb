import { OutgoingMailList } from "../../../../outgoing-mail/outgoing-mail-list.tsx";
import { PageTitle } from "../../../../shell/page-title.tsx";

export default function Page() {
  return (
    <>
      <PageTitle>Mail outbox</PageTitle>
      <OutgoingMailList />
    </>
  );
}
