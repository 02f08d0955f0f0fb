import {
  DeleteObjectsCommand,
  ListObjectVersionsCommand,
  type ObjectIdentifier,
  type S3Client,
} from "@aws-sdk/client-s3";
import { ProvisionError } from "../cluster-driver.ts";

/**
 * Deletes every object and version of a bucket, a page of at most 1,000 at a time, and returns their
 * number. A bucket that is gone has none. Throws `ProvisionError` `apply_failed` if S3 rejects a deletion.
 */
export async function emptyBucket(
  s3: S3Client,
  bucket: string,
  signal: AbortSignal | undefined,
): Promise<number> {
  let deleted = 0;
  try {
    for (;;) {
      // Always the first page: its objects are deleted before the next request.
      const page = await s3.send(new ListObjectVersionsCommand({ Bucket: bucket }));
      if (signal?.aborted) throw new ProvisionError("aborted", `emptying ${bucket} was aborted`);
      const objects = [...(page.Versions ?? []), ...(page.DeleteMarkers ?? [])].flatMap(
        ({ Key, VersionId }): ObjectIdentifier[] =>
          Key === undefined ? [] : [{ Key, ...(VersionId === undefined ? {} : { VersionId }) }],
      );
      if (objects.length === 0) return deleted;
      const command = new DeleteObjectsCommand({
        Bucket: bucket,
        Delete: { Objects: objects, Quiet: true },
      });
      const [refused] = (await s3.send(command)).Errors ?? [];
      if (refused) {
        const detail = `${refused.Key}: ${refused.Code} ${refused.Message}`;
        throw new ProvisionError("apply_failed", `S3 keeps an object of ${bucket}`, { detail });
      }
      deleted += objects.length;
    }
  } catch (error) {
    if (error instanceof Error && error.name === "NoSuchBucket") return deleted;
    throw error;
  }
}
