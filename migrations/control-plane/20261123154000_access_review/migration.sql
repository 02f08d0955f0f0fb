-- When somebody reviewed who has access, and how much of it there was.
CREATE TABLE "access_review" (
    "id" TEXT NOT NULL,
    "organization_id" TEXT NOT NULL,
    "reviewed_by" JSONB NOT NULL,
    "counts" JSONB NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "access_review_pkey" PRIMARY KEY ("id")
);
CREATE INDEX "access_review_organization_id_created_at_id_idx"
  ON "access_review"("organization_id", "created_at" DESC, "id" DESC);
ALTER TABLE "access_review" ADD CONSTRAINT "access_review_organization_id_fkey"
  FOREIGN KEY ("organization_id") REFERENCES "organization"("id") ON DELETE CASCADE ON UPDATE CASCADE;

GRANT SELECT, INSERT ON access_review TO millrace_api;
ALTER TABLE "access_review" ENABLE ROW LEVEL SECURITY;
ALTER TABLE "access_review" FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON "access_review" TO millrace_api, millrace_worker
  USING (organization_id = current_setting('app.organization_id', true))
  WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY owner_path ON "access_review" TO CURRENT_USER
  USING (current_setting('app.owner_path', true) = 'on');

-- Sessions end after days, so that they do not tell when a member was here last.
ALTER TABLE "member" ADD COLUMN "last_used_at" TIMESTAMPTZ(3);
SELECT set_config('app.owner_path', 'on', false);
UPDATE member m SET last_used_at = (SELECT max(s.updated_at) FROM session s
  WHERE s.user_id = m.user_id AND coalesce(s.sso_organization_id, m.organization_id) = m.organization_id);
SELECT set_config('app.owner_path', '', false);

DROP FUNCTION memberships_of(text);
CREATE FUNCTION memberships_of(person text) RETURNS TABLE (
    organization_id text, role text, name text, slug text, created_at timestamptz, sso_required boolean,
    custom_role_id text, custom_role_name text, custom_role_permissions text[], last_used_at timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT o.id, m.role, o.name, o.slug, o.created_at, coalesce(s.required, false),
      c.id, c.name, c.permissions, m.last_used_at
    FROM public.member m JOIN public.organization o ON o.id = m.organization_id
    LEFT JOIN public.sso_connection s ON s.organization_id = o.id
    LEFT JOIN public.custom_role c ON c.id = m.custom_role_id
    WHERE m.user_id = person ORDER BY m.created_at, m.id;
  PERFORM set_config('app.owner_path', '', true);
END
$$;
REVOKE ALL ON FUNCTION memberships_of(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memberships_of(text) TO millrace_api;
