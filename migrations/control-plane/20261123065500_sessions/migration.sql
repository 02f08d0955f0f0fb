-- When the person behind a session last proved who they are: at sign-in, and whenever asked again.
ALTER TABLE "session" ADD COLUMN "authenticated_at" TIMESTAMPTZ(3);
UPDATE "session" SET "authenticated_at" = "created_at";
ALTER TABLE "session" ALTER COLUMN "authenticated_at" SET DEFAULT CURRENT_TIMESTAMP,
  ALTER COLUMN "authenticated_at" SET NOT NULL;

-- Second factors. Secrets and recovery codes are sealed with the installation's secret by the identity library.
ALTER TABLE "user" ADD COLUMN "two_factor_enabled" BOOLEAN NOT NULL DEFAULT false;
CREATE TABLE "two_factor" (
    "id" TEXT NOT NULL,
    "secret" TEXT NOT NULL,
    "backup_codes" TEXT NOT NULL,
    "user_id" TEXT NOT NULL,
    "verified" BOOLEAN NOT NULL DEFAULT true,
    "failed_verification_count" INTEGER NOT NULL DEFAULT 0,
    "locked_until" TIMESTAMPTZ(3),

    CONSTRAINT "two_factor_pkey" PRIMARY KEY ("id")
);
CREATE UNIQUE INDEX "two_factor_user_id_key" ON "two_factor"("user_id");
ALTER TABLE "two_factor" ADD CONSTRAINT "two_factor_user_id_fkey"
  FOREIGN KEY ("user_id") REFERENCES "user"("id") ON DELETE CASCADE ON UPDATE CASCADE;
GRANT SELECT, INSERT, UPDATE, DELETE ON two_factor TO millrace_api;
