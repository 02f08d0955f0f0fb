-- Mails that the product writes. Their texts hold invitation links, so that they are sealed.
CREATE TABLE "outgoing_mail" (
    "id" TEXT NOT NULL,
    "organization_id" TEXT NOT NULL,
    "invitation_id" TEXT NOT NULL,
    "recipient" TEXT NOT NULL,
    "subject" TEXT NOT NULL,
    -- Sealed with a key derived from the installation's secret, bound to organization and mail. NULL once it was read.
    "sealed_text" BYTEA,
    "opened_at" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "outgoing_mail_pkey" PRIMARY KEY ("id")
);
CREATE INDEX "outgoing_mail_organization_id_created_at_id_idx"
  ON "outgoing_mail"("organization_id", "created_at" DESC, "id" DESC);
CREATE INDEX "outgoing_mail_invitation_id_idx" ON "outgoing_mail"("invitation_id");
ALTER TABLE "outgoing_mail" ADD CONSTRAINT "outgoing_mail_organization_id_fkey"
  FOREIGN KEY ("organization_id") REFERENCES "organization"("id") ON DELETE CASCADE ON UPDATE CASCADE;
ALTER TABLE "outgoing_mail" ADD CONSTRAINT "outgoing_mail_invitation_id_fkey"
  FOREIGN KEY ("invitation_id") REFERENCES "invitation"("id") ON DELETE CASCADE ON UPDATE CASCADE;

GRANT SELECT, INSERT, UPDATE, DELETE ON outgoing_mail TO millrace_api;
ALTER TABLE "outgoing_mail" ENABLE ROW LEVEL SECURITY;
ALTER TABLE "outgoing_mail" FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON "outgoing_mail" TO millrace_api, millrace_worker
  USING (organization_id = current_setting('app.organization_id', true))
  WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY owner_path ON "outgoing_mail" TO CURRENT_USER
  USING (current_setting('app.owner_path', true) = 'on');
