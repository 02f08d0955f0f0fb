-- Members can be removed, and people invited. The table of invitations was never written to until now.
ALTER TABLE "invitation"
  DROP COLUMN "inviter_id",
  DROP COLUMN "status",
  ADD COLUMN "token_hash" BYTEA NOT NULL,
  ADD COLUMN "invited_by" JSONB NOT NULL,
  ADD COLUMN "accepted_at" TIMESTAMPTZ(3),
  ADD COLUMN "revoked_at" TIMESTAMPTZ(3),
  ALTER COLUMN "role" SET NOT NULL;
CREATE UNIQUE INDEX "invitation_token_hash_key" ON "invitation"("token_hash");
DROP INDEX "invitation_organization_id_idx";
CREATE INDEX "invitation_organization_id_created_at_id_idx"
  ON "invitation"("organization_id", "created_at" DESC, "id" DESC);

GRANT DELETE ON member TO millrace_api;
GRANT SELECT, INSERT, UPDATE ON invitation TO millrace_api;

-- Whoever has the link of an invitation is in no organization yet.
CREATE FUNCTION find_invitation(hash bytea)
  RETURNS TABLE (id text, organization_id text, organization_name text)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT i.id, o.id, o.name
    FROM public.invitation i JOIN public.organization o ON o.id = i.organization_id
    WHERE i.token_hash = hash;
  PERFORM set_config('app.owner_path', '', true);
END
$$;
REVOKE ALL ON FUNCTION find_invitation(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_invitation(bytea) TO millrace_api;
