import type { OutgoingMail as OutgoingMailShape } from "@millrace/contract";
import type { OutgoingMail } from "@millrace/domain";

export function presentOutgoingMail(mail: OutgoingMail): OutgoingMailShape {
  return {
    id: mail.id,
    recipient: mail.recipient,
    subject: mail.subject,
    created_at: mail.createdAt.toISOString(),
    opened_at: mail.openedAt?.toISOString() ?? null,
  };
}
