-- A change may revert an earlier one.
ALTER TABLE "tuning_change" ADD COLUMN "reverts_id" TEXT;

-- Later changes of the same settings are in the way of a second revert, so there is one at most.
CREATE UNIQUE INDEX "tuning_change_reverts_id_key" ON "tuning_change"("reverts_id");

ALTER TABLE "tuning_change" ADD CONSTRAINT "tuning_change_reverts_id_fkey" FOREIGN KEY ("reverts_id") REFERENCES "tuning_change"("id") ON DELETE RESTRICT ON UPDATE CASCADE;
