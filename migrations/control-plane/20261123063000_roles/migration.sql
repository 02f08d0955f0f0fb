-- The role `member` is called `developer`, with the same permissions; `operator` is new, between it and `admin`.
SELECT set_config('app.owner_path', 'on', true);
UPDATE "member" SET "role" = 'developer' WHERE "role" = 'member';
UPDATE "api_key" SET "role" = 'developer' WHERE "role" = 'member';
