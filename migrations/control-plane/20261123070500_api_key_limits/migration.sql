-- What narrows a key, and the secret that it had before its last rotation.
ALTER TABLE "api_key"
  ADD COLUMN "permissions" TEXT[] NOT NULL DEFAULT '{}',
  ADD COLUMN "allowed_addresses" TEXT[] NOT NULL DEFAULT '{}',
  ADD COLUMN "previous_secret_hash" BYTEA,
  ADD COLUMN "previous_valid_until" TIMESTAMPTZ(3);
CREATE UNIQUE INDEX "api_key_previous_secret_hash_key" ON "api_key"("previous_secret_hash");

CREATE OR REPLACE FUNCTION find_api_key(hash bytea) RETURNS SETOF api_key
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM set_config('app.owner_path', 'on', true);
  RETURN QUERY SELECT k.* FROM public.api_key k
    WHERE k.secret_hash = hash OR (k.previous_secret_hash = hash AND k.previous_valid_until > now());
  PERFORM set_config('app.owner_path', '', true);
END
$$;
