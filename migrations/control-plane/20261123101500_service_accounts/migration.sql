-- Members that are no people: they have a role and API keys of their own, and cannot sign in.
CREATE TABLE "service_account" (
    "id" TEXT NOT NULL,
    "organization_id" TEXT NOT NULL,
    "name" TEXT NOT NULL,
    "description" TEXT NOT NULL,
    "role" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "disabled_at" TIMESTAMPTZ(3),
    "deleted_at" TIMESTAMPTZ(3),

    CONSTRAINT "service_account_pkey" PRIMARY KEY ("id")
);
CREATE INDEX "service_account_organization_id_created_at_id_idx"
  ON "service_account"("organization_id", "created_at" DESC, "id" DESC);
CREATE UNIQUE INDEX "service_account_name_taken"
  ON "service_account"("organization_id", "name") WHERE "deleted_at" IS NULL;
ALTER TABLE "service_account" ADD CONSTRAINT "service_account_organization_id_fkey"
  FOREIGN KEY ("organization_id") REFERENCES "organization"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- A key of a service account has the account's role, whatever its own row says.
ALTER TABLE "api_key" ADD COLUMN "service_account_id" TEXT;
CREATE INDEX "api_key_service_account_id_idx" ON "api_key"("service_account_id");
ALTER TABLE "api_key" ADD CONSTRAINT "api_key_service_account_id_fkey"
  FOREIGN KEY ("service_account_id") REFERENCES "service_account"("id") ON DELETE RESTRICT ON UPDATE CASCADE;

GRANT SELECT, INSERT, UPDATE ON service_account TO millrace_api;
ALTER TABLE "service_account" ENABLE ROW LEVEL SECURITY;
ALTER TABLE "service_account" FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON "service_account" TO millrace_api, millrace_worker
  USING (organization_id = current_setting('app.organization_id', true))
  WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY owner_path ON "service_account" TO CURRENT_USER
  USING (current_setting('app.owner_path', true) = 'on');
