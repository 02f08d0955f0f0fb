-- The time step (RFC 6238) of the last code that was accepted: no code is accepted twice.
ALTER TABLE "two_factor" ADD COLUMN "last_code_step" INTEGER;
