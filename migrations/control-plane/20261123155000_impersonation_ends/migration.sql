-- An impersonation is ended by its id, so that its row and the line in the organization's audit log are about the same one.
-- Beginning one therefore ends no other, and leaves that to the caller.

-- Begins an impersonation of the member with that address, by default of the first owner. No row where the session is no
-- platform operator's, has an active impersonation, or there is no such member. Deletes impersonations that began more
-- than 30 days ago, 100 at a time; the audit log keeps their lines.
CREATE OR REPLACE FUNCTION begin_impersonation(
    asking_session text, new_id text, wanted_organization text, member_email text, given_reason text, write boolean)
  RETURNS TABLE (user_id text, user_email text, operator_id text, operator_email text, expires_at timestamptz)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  asking text;
  chosen text;
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  -- One at a time for each session.
  PERFORM 1 FROM public.session s WHERE s.id = asking_session FOR UPDATE;
  asking := platform_operator_of(asking_session);
  IF asking IS NULL THEN RETURN; END IF;
  PERFORM set_config('app.owner_path', 'on', true);
  UPDATE public.impersonation i SET ended_at = i.expires_at
    WHERE i.session_id = asking_session AND i.ended_at IS NULL AND i.expires_at <= now();
  SELECT m.user_id INTO chosen FROM public.member m JOIN public."user" u ON u.id = m.user_id
    WHERE m.organization_id = wanted_organization
      AND CASE WHEN member_email IS NULL THEN m.role = 'owner' ELSE u.email = member_email END
      AND NOT EXISTS (SELECT 1 FROM public.impersonation i WHERE i.session_id = asking_session AND i.ended_at IS NULL)
    ORDER BY m.created_at, m.id LIMIT 1;
  IF chosen IS NOT NULL THEN
    INSERT INTO public.impersonation
        (id, organization_id, session_id, operator_id, user_id, reason, may_write, expires_at)
      VALUES (new_id, wanted_organization, asking_session, asking, chosen, given_reason, write,
        now() + interval '30 minutes');
    -- Ids are ordered by time, so the oldest ones are read, and no others.
    DELETE FROM public.impersonation d WHERE d.created_at < now() - interval '30 days' AND d.id IN (
      SELECT i.id FROM public.impersonation i ORDER BY i.id LIMIT 100 FOR UPDATE SKIP LOCKED);
    RETURN QUERY SELECT i.user_id, u.email, i.operator_id, p.email, i.expires_at
      FROM public.impersonation i JOIN public."user" u ON u.id = i.user_id
        JOIN public."user" p ON p.id = i.operator_id
      WHERE i.id = new_id;
  END IF;
  PERFORM set_config('app.owner_path', '', true);
END
$$;

-- Ends the session's impersonation with that id, also after the session has ended. False where it was over.
DROP FUNCTION end_impersonation(text);
CREATE FUNCTION end_impersonation(asking_session text, impersonation_id text) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  ended boolean;
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  UPDATE public.impersonation i SET ended_at = now() WHERE i.id = impersonation_id
    AND i.session_id = asking_session AND i.ended_at IS NULL AND i.expires_at > now();
  ended := FOUND;
  PERFORM set_config('app.owner_path', '', true);
  RETURN ended;
END
$$;
REVOKE ALL ON FUNCTION end_impersonation(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION end_impersonation(text, text) TO millrace_api;
