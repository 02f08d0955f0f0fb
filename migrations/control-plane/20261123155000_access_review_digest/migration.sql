-- What was reviewed, and that nothing was left out. A record of an earlier version says neither.
ALTER TABLE "access_review" ADD COLUMN "digest" TEXT, ADD COLUMN "complete" BOOLEAN NOT NULL DEFAULT false;
