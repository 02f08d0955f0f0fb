-- The owner of the tables is confined too, and says that it reads across tenants.
SELECT set_config('app.owner_path', 'on', true);

-- An API process of the version before changes `role` and leaves `custom_role_id`: nobody with a custom role may count as an owner.
UPDATE "member" SET "role" = 'viewer' WHERE "custom_role_id" IS NOT NULL;
ALTER TABLE "member" ADD CONSTRAINT "member_custom_role_least"
  CHECK ("custom_role_id" IS NULL OR "role" = 'viewer');

-- Names that differ only by case are the same name; of such roles all but the oldest get their id as a suffix.
UPDATE "custom_role" r SET "name" = left("name", 69) || ' ' || "id"
  WHERE lower("name") IN ('owner', 'admin', 'operator', 'developer', 'viewer') OR EXISTS (
    SELECT FROM "custom_role" o
    WHERE o."organization_id" = r."organization_id" AND lower(o."name") = lower(r."name")
      AND (o."created_at", o."id") < (r."created_at", r."id"));
DROP INDEX "custom_role_organization_id_name_key";
CREATE UNIQUE INDEX "custom_role_name_taken" ON "custom_role"("organization_id", lower("name"));
