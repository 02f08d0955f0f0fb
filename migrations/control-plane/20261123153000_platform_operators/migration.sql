-- People who run the installation, and belong to no organization. No role has a right to this table: only the owner of the
-- tables, by the installation's command line, makes somebody a platform operator.
CREATE TABLE "platform_operator" (
    "user_id" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "platform_operator_pkey" PRIMARY KEY ("user_id")
);
ALTER TABLE "platform_operator" ADD CONSTRAINT "platform_operator_user_id_fkey"
  FOREIGN KEY ("user_id") REFERENCES "user"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- A platform operator's session that acts as a member of an organization. Written and read by the functions below alone.
CREATE TABLE "impersonation" (
    "id" TEXT NOT NULL,
    "organization_id" TEXT NOT NULL,
    -- The row outlives the session, and has no power without it.
    "session_id" TEXT NOT NULL,
    "operator_id" TEXT NOT NULL,
    -- The member.
    "user_id" TEXT NOT NULL,
    "reason" TEXT NOT NULL,
    "may_write" BOOLEAN NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "ended_at" TIMESTAMPTZ(3),

    CONSTRAINT "impersonation_pkey" PRIMARY KEY ("id")
);
CREATE UNIQUE INDEX "impersonation_of_session" ON "impersonation"("session_id") WHERE "ended_at" IS NULL;
CREATE INDEX "impersonation_organization_id_idx" ON "impersonation"("organization_id");
ALTER TABLE "impersonation" ADD CONSTRAINT "impersonation_organization_id_fkey"
  FOREIGN KEY ("organization_id") REFERENCES "organization"("id") ON DELETE CASCADE ON UPDATE CASCADE;
ALTER TABLE "impersonation" ENABLE ROW LEVEL SECURITY;
ALTER TABLE "impersonation" FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON "impersonation" TO millrace_api, millrace_worker
  USING (organization_id = current_setting('app.organization_id', true))
  WITH CHECK (organization_id = current_setting('app.organization_id', true));
CREATE POLICY owner_path ON "impersonation" TO CURRENT_USER
  USING (current_setting('app.owner_path', true) = 'on');

-- The platform operator of a live session; NULL for everybody else: a session that an organization's identity provider
-- opened, and somebody who belongs to an organization.
CREATE FUNCTION platform_operator_of(asking_session text) RETURNS text
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  found text;
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  SELECT p.user_id INTO found
    FROM public.session s JOIN public.platform_operator p ON p.user_id = s.user_id
    WHERE s.id = asking_session AND s.expires_at > now() AND s.sso_organization_id IS NULL
      AND NOT EXISTS (SELECT 1 FROM public.member m WHERE m.user_id = p.user_id);
  PERFORM set_config('app.owner_path', '', true);
  RETURN found;
END
$$;

-- Organizations and the health of their clusters, for the session of a platform operator; nothing for others. Ordered by id.
CREATE FUNCTION platform_organizations(asking_session text, after_id text, most integer, clusters_max integer)
  RETURNS TABLE (id text, name text, slug text, created_at timestamptz, members bigint, clusters jsonb)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  asking CONSTANT text := platform_operator_of(asking_session);
BEGIN
  IF asking IS NULL THEN RETURN; END IF;
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT o.id, o.name, o.slug, o.created_at,
      (SELECT count(*) FROM public.member m WHERE m.organization_id = o.id),
      coalesce((SELECT jsonb_agg(to_jsonb(c)) FROM (
        SELECT k.id, k.name, k.region, k.size, k.phase,
          k.conditions -> 0 ->> 'status' AS ready, k.conditions -> 0 ->> 'reason' AS reason
        FROM public.cluster k WHERE k.organization_id = o.id AND k.deleted_at IS NULL
        ORDER BY k.id LIMIT clusters_max) c), '[]'::jsonb)
    FROM public.organization o WHERE o.id > after_id ORDER BY o.id LIMIT most;
  PERFORM set_config('app.owner_path', '', true);
END
$$;

-- Begins an impersonation of the member with that address, by default of the first owner, and ends the session's
-- earlier one. No row where the session is no platform operator's, or there is no such member.
CREATE FUNCTION begin_impersonation(
    asking_session text, new_id text, wanted_organization text, member_email text, given_reason text, write boolean)
  RETURNS TABLE (user_id text, user_email text, operator_id text, operator_email text, expires_at timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  asking CONSTANT text := platform_operator_of(asking_session);
  chosen text;
BEGIN
  IF asking IS NULL THEN RETURN; END IF;
  PERFORM set_config('app.owner_path', 'on', true);
  SELECT m.user_id INTO chosen FROM public.member m JOIN public."user" u ON u.id = m.user_id
    WHERE m.organization_id = wanted_organization
      AND CASE WHEN member_email IS NULL THEN m.role = 'owner' ELSE u.email = member_email END
    ORDER BY m.created_at, m.id LIMIT 1;
  IF chosen IS NOT NULL THEN
    UPDATE public.impersonation i SET ended_at = now() WHERE i.session_id = asking_session AND i.ended_at IS NULL;
    INSERT INTO public.impersonation
        (id, organization_id, session_id, operator_id, user_id, reason, may_write, expires_at)
      VALUES (new_id, wanted_organization, asking_session, asking, chosen, given_reason, write,
        now() + interval '30 minutes');
    RETURN QUERY SELECT i.user_id, u.email, i.operator_id, p.email, i.expires_at
      FROM public.impersonation i JOIN public."user" u ON u.id = i.user_id
        JOIN public."user" p ON p.id = i.operator_id
      WHERE i.id = new_id;
  END IF;
  PERFORM set_config('app.owner_path', '', true);
END
$$;

-- What the session acts as now.
CREATE FUNCTION active_impersonation(asking_session text)
  RETURNS TABLE (id text, organization_id text, user_id text, operator_id text, operator_email text, reason text,
    may_write boolean, expires_at timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  asking CONSTANT text := platform_operator_of(asking_session);
BEGIN
  IF asking IS NULL THEN RETURN; END IF;
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT i.id, i.organization_id, i.user_id, i.operator_id, u.email, i.reason, i.may_write, i.expires_at
    FROM public.impersonation i JOIN public."user" u ON u.id = i.operator_id
    WHERE i.session_id = asking_session AND i.operator_id = asking AND i.ended_at IS NULL AND i.expires_at > now();
  PERFORM set_config('app.owner_path', '', true);
END
$$;

-- Ends what the session acts as, also after the session has ended. False where it was over.
CREATE FUNCTION end_impersonation(asking_session text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  ended boolean;
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  UPDATE public.impersonation i SET ended_at = now()
    WHERE i.session_id = asking_session AND i.ended_at IS NULL AND i.expires_at > now();
  ended := FOUND;
  PERFORM set_config('app.owner_path', '', true);
  RETURN ended;
END
$$;

DO $$
DECLARE
  each text;
BEGIN
  FOREACH each IN ARRAY ARRAY[
    'platform_operator_of(text)', 'platform_organizations(text, text, integer, integer)',
    'begin_impersonation(text, text, text, text, text, boolean)', 'active_impersonation(text)', 'end_impersonation(text)'
  ] LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', each);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO millrace_api', each);
  END LOOP;
END
$$;

-- Who acted as the actor. Events without one have the same hash as before.
ALTER TABLE "audit_event" ADD COLUMN "impersonator" JSONB;
CREATE OR REPLACE FUNCTION audit_event_hash(previous bytea, e audit_event) RETURNS bytea
  LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT sha256(previous || convert_to((jsonb_build_array(
    e.organization_id, e.seq, e.id, (extract(epoch FROM e.created_at) * 1000)::bigint,
    e.actor_kind, e.actor_id, e.actor_name, e.auth_method, e.client_address, e.request_id, e.method,
    e.target_id, e.result, e.error_code, e.request, e.before, e.after)
    || CASE WHEN e.impersonator IS NULL THEN '[]'::jsonb ELSE jsonb_build_array(e.impersonator) END)::text, 'UTF8'))
$$;
