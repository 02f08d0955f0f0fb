-- A list is in the order of `seq`, also of one target or actor. Nothing reads in the order of `created_at`.
DROP INDEX "audit_event_organization_id_created_at_id_idx";
CREATE INDEX "audit_event_organization_id_target_id_seq_idx"
  ON "audit_event"("organization_id", "target_id", "seq" DESC);
CREATE INDEX "audit_event_organization_id_actor_id_seq_idx"
  ON "audit_event"("organization_id", "actor_id", "seq" DESC);

-- The event after which a verification began: 0 where it saw the whole chain, as all did until now.
ALTER TABLE "audit_check" ADD COLUMN "from_seq" BIGINT NOT NULL DEFAULT 0;

-- A process that stands still in a transaction must not keep an organization's audit lock. Transactions of API
-- and worker end after 15 seconds by themselves, and wait for a lock no longer than they may take. Roles belong
-- to the server: two migrations at once may change the same role, and somebody else may have made it.
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['millrace_api', 'millrace_worker'] LOOP
    BEGIN
      EXECUTE format('ALTER ROLE %I SET idle_in_transaction_session_timeout = ''20s''', name);
      EXECUTE format('ALTER ROLE %I SET lock_timeout = ''10s''', name);
    EXCEPTION
      WHEN unique_violation OR internal_error THEN
        NULL;
      WHEN insufficient_privilege THEN
        RAISE WARNING 'set idle_in_transaction_session_timeout = 20s and lock_timeout = 10s for role %', name;
    END;
  END LOOP;
END
$$;
