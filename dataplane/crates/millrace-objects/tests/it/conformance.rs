//! What every bucket promises, whatever is behind it. The same suite runs over a folder, over memory,
//! and over an S3 server (`--ignored`, `MILLRACE_TEST_S3_URI` names an empty bucket of it).

use bytes::Bytes;
use millrace_model::ObjectId;
use millrace_objects::{
    ObjectKey,
    bucket::{Body, Bucket, BucketError, BucketUri, PartSlot, PartTag, StoreBucket, UploadId},
};

fn key(id: u64) -> ObjectKey {
    ObjectKey::of("conformance", ObjectId(id))
}

fn body(chunks: &[&'static str]) -> Body {
    chunks
        .iter()
        .map(|chunk| Bytes::from_static(chunk.as_bytes()))
        .collect::<Vec<_>>()
        .into()
}

async fn keeps_the_contract(bucket: &dyn Bucket) {
    put_and_get(bucket).await;
    gets_pieces(bucket).await;
    put_only_creates(bucket).await;
    one_of_many_puts_wins(bucket).await;
    absent_objects(bucket).await;
    deletes(bucket).await;
    lists(bucket).await;
    large_objects(bucket).await;
    objects_in_parts(bucket).await;
    an_object_in_parts_only_creates(bucket).await;
    an_upload_ends_once(bucket).await;
    parts_are_copied_where_the_store_can(bucket).await;
}

/// The least that S3 takes for a part that is not the last, bytes.
const PART_BYTES: u64 = 5 * 1024 * 1024;

/// An object of two parts, the second of which has an odd length.
fn two_parts(salt: u8) -> Body {
    let bytes = (0..PART_BYTES + 12_345).map(|i| ((i * 131) >> 3) as u8 ^ salt);
    vec![bytes.collect::<Bytes>()].into()
}

async fn put_part(
    bucket: &dyn Bucket,
    id: u64,
    upload: &UploadId,
    n: u64,
    whole: &Body,
) -> PartTag {
    let (offset, end) = (n * PART_BYTES, ((n + 1) * PART_BYTES).min(whole.size()));
    let number = n as usize;
    let slot = PartSlot { number, offset };
    let part = whole.slice(offset..end);
    let put = bucket.put_part(&key(id), upload, slot, &part).await;
    put.expect("a part of an upload that is under way")
}

async fn holds(bucket: &dyn Bucket, id: u64, whole: &Body) {
    assert_eq!(bucket.size(&key(id)).await.expect("there"), whole.size());
    let found = bucket.get(&key(id), 0..whole.size()).await.expect("there");
    assert!(
        found == whole.chunks().concat(),
        "object {id} has other bytes"
    );
}

async fn objects_in_parts(bucket: &dyn Bucket) {
    let (whole, other) = (two_parts(0), two_parts(1));
    let upload = bucket.begin_parts(&key(6)).await.expect("begins");
    // In any order, and the same part again replaces the first.
    let second = put_part(bucket, 6, &upload, 1, &whole).await;
    put_part(bucket, 6, &upload, 0, &other).await;
    let first = put_part(bucket, 6, &upload, 0, &whole).await;
    assert!(
        matches!(bucket.size(&key(6)).await, Err(BucketError::NotFound)),
        "nothing is there before it is completed"
    );
    bucket
        .complete_parts(&key(6), &upload, &[first, second], &whole)
        .await
        .expect("all parts are there");
    holds(bucket, 6, &whole).await;
}

async fn an_object_in_parts_only_creates(bucket: &dyn Bucket) {
    let (ours, theirs) = (two_parts(2), two_parts(3));
    let mut uploads = Vec::new();
    for whole in [&ours, &theirs] {
        let upload = bucket.begin_parts(&key(7)).await.expect("begins");
        let mut tags = Vec::new();
        for n in 0..2 {
            tags.push(put_part(bucket, 7, &upload, n, whole).await);
        }
        uploads.push((upload, tags));
    }
    let (upload, tags) = &uploads[0];
    bucket
        .complete_parts(&key(7), upload, tags, &ours)
        .await
        .expect("the first");
    let (upload, tags) = &uploads[1];
    let second = bucket.complete_parts(&key(7), upload, tags, &theirs).await;
    assert!(
        matches!(second, Err(BucketError::AlreadyExists)),
        "{second:?}"
    );
    holds(bucket, 7, &ours).await;
    bucket.abort_parts(&key(7), upload).await.expect("aborts");
    let put = bucket.put(&key(7), &body(&["theirs"])).await;
    assert!(matches!(put, Err(BucketError::AlreadyExists)), "{put:?}");
}

async fn an_upload_ends_once(bucket: &dyn Bucket) {
    let whole = two_parts(4);
    let upload = bucket.begin_parts(&key(8)).await.expect("begins");
    let tag = put_part(bucket, 8, &upload, 0, &whole).await;
    bucket.abort_parts(&key(8), &upload).await.expect("aborts");
    let slot = PartSlot {
        number: 0,
        offset: 0,
    };
    let late = bucket
        .put_part(&key(8), &upload, slot, &whole.slice(0..PART_BYTES))
        .await;
    assert!(matches!(late, Err(BucketError::NotFound)), "{late:?}");
    let late = bucket
        .complete_parts(&key(8), &upload, &[tag], &whole.slice(0..PART_BYTES))
        .await;
    assert!(matches!(late, Err(BucketError::NotFound)), "{late:?}");
    bucket
        .abort_parts(&key(8), &upload)
        .await
        .expect("aborting again is no error");

    // A completion that is repeated changes nothing, whatever it is answered.
    let upload = bucket.begin_parts(&key(8)).await.expect("begins");
    let tags = [
        put_part(bucket, 8, &upload, 0, &whole).await,
        put_part(bucket, 8, &upload, 1, &whole).await,
    ];
    for _ in 0..2 {
        let completed = bucket.complete_parts(&key(8), &upload, &tags, &whole).await;
        assert!(
            matches!(
                completed,
                Ok(()) | Err(BucketError::NotFound | BucketError::AlreadyExists)
            ),
            "{completed:?}"
        );
        holds(bucket, 8, &whole).await;
    }
}

async fn put_and_get(bucket: &dyn Bucket) {
    bucket
        .put(&key(1), &body(&["hello", "", ", ", "world"]))
        .await
        .expect("a new key");
    assert_eq!(bucket.size(&key(1)).await.expect("there"), 12);
    for (range, expected) in [
        (0..12, "hello, world"),
        (4..8, "o, w"),
        (11..12, "d"),
        (7..100, "world"),
    ] {
        assert_eq!(bucket.get(&key(1), range).await.expect("there"), expected);
    }
    let behind = bucket.get(&key(1), 12..13).await;
    assert!(matches!(behind, Err(BucketError::Failed(_))), "{behind:?}");

    bucket
        .put(&key(2), &body(&[]))
        .await
        .expect("empty objects are objects");
    assert_eq!(bucket.size(&key(2)).await.expect("there"), 0);
}

async fn gets_pieces(bucket: &dyn Bucket) {
    let id = key(9);
    let whole: Bytes = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
    bucket
        .put(&id, &vec![whole.clone()].into())
        .await
        .expect("a new object");
    let pieces = [5..6, 6..70_000, 80_000..99_999];
    let found = bucket.get_pieces(&id, &pieces).await.expect("there");
    for (piece, found) in pieces.iter().zip(&found) {
        let expected = &whole[piece.start as usize..piece.end as usize];
        assert_eq!(found, expected, "{piece:?}");
    }
    // Each can be given back without the others.
    for (one, next) in found.iter().zip(&found[1..]) {
        let end = one.as_ptr() as usize + one.len();
        assert_ne!(end, next.as_ptr() as usize);
    }
    let beyond = bucket.get_pieces(&id, &[10..20, 99_990..100_010]).await;
    let beyond = beyond.expect("what there is");
    assert_eq!(beyond.iter().map(Bytes::len).collect::<Vec<_>>(), [10, 10]);
    let absent = bucket.get_pieces(&key(404), &[0..1, 2..3]).await;
    assert!(matches!(absent, Err(BucketError::NotFound)), "{absent:?}");
    bucket.delete(&[id]).await.expect("deletes");
}

async fn put_only_creates(bucket: &dyn Bucket) {
    let second = bucket.put(&key(1), &body(&["another"])).await;
    assert!(
        matches!(second, Err(BucketError::AlreadyExists)),
        "{second:?}"
    );
    assert_eq!(
        bucket.get(&key(1), 0..12).await.expect("there"),
        "hello, world"
    );
}

async fn one_of_many_puts_wins(bucket: &dyn Bucket) {
    let bodies = ["a", "b", "c", "d"].map(|text| body(&[text]));
    let puts = bodies
        .iter()
        .map(|body| async { bucket.put(&key(3), body).await.is_ok() });
    let won = futures_util::future::join_all(puts).await;
    assert_eq!(won.iter().filter(|won| **won).count(), 1);
    let winner = bodies
        .iter()
        .zip(&won)
        .find(|(_, won)| **won)
        .expect("one won")
        .0;
    assert_eq!(
        bucket.get(&key(3), 0..1).await.expect("there"),
        winner.chunks()[0]
    );
}

async fn absent_objects(bucket: &dyn Bucket) {
    assert!(matches!(
        bucket.get(&key(404), 0..1).await,
        Err(BucketError::NotFound)
    ));
    assert!(matches!(
        bucket.size(&key(404)).await,
        Err(BucketError::NotFound)
    ));
}

async fn deletes(bucket: &dyn Bucket) {
    bucket.put(&key(4), &body(&["x"])).await.expect("a new key");
    bucket
        .delete(&[key(4), key(404)])
        .await
        .expect("one there, one not");
    assert!(matches!(
        bucket.size(&key(4)).await,
        Err(BucketError::NotFound)
    ));
    bucket
        .delete(&[key(4)])
        .await
        .expect("deleting again is no error");
    bucket
        .delete(&[])
        .await
        .expect("nothing to delete is no error");
    bucket
        .put(&key(4), &body(&["y"]))
        .await
        .expect("the key is free again");
}

async fn lists(bucket: &dyn Bucket) {
    let mut expected: Vec<_> = [(1, 12), (2, 0), (3, 1), (4, 1)]
        .map(|(id, size)| (key(id).as_str().to_owned(), size))
        .into_iter()
        .collect();
    expected.sort();
    let listed = |list: Vec<millrace_objects::Listed>| -> Vec<_> {
        list.into_iter()
            .map(|object| (object.key.as_str().to_owned(), object.size))
            .collect()
    };
    let all = bucket.list("", None, 100).await.expect("a listing");
    assert_eq!(listed(all.clone()), expected);
    assert_eq!(
        listed(bucket.list("", None, 2).await.expect("a page")),
        expected[..2]
    );
    let rest = bucket
        .list("", Some(&all[1].key), 100)
        .await
        .expect("the next page");
    assert_eq!(listed(rest), expected[2..]);
    let folder = bucket.list("2000", None, 100).await.expect("a folder");
    assert_eq!(listed(folder), [(key(2).as_str().to_owned(), 0)]);
    assert!(
        bucket
            .list("none", None, 100)
            .await
            .expect("no folder")
            .is_empty()
    );
}

async fn large_objects(bucket: &dyn Bucket) {
    let chunks: Vec<Bytes> = (0..20_u8).map(|nth| vec![nth; 1 << 20].into()).collect();
    bucket
        .put(&key(5), &chunks.into())
        .await
        .expect("a new key");
    let seam = bucket
        .get(&key(5), (7 << 20) - 1..(7 << 20) + 1)
        .await
        .expect("there");
    assert_eq!(seam.as_ref(), [6, 7]);
    assert_eq!(bucket.size(&key(5)).await.expect("there"), 20 << 20);
}

#[tokio::test]
async fn memory() {
    keeps_the_contract(&StoreBucket::memory()).await;
}

async fn parts_are_copied_where_the_store_can(bucket: &dyn Bucket) {
    let source = two_parts(2);
    bucket.put(&key(30), &source).await.expect("puts");
    let upload = bucket.begin_parts(&key(31)).await.expect("begins");
    let slot = |number, offset| PartSlot { number, offset };
    let range = 1_000..1_000 + PART_BYTES + 7;
    let copied = bucket
        .copy_part(&key(31), &upload, slot(0, 0), &key(30), range.clone())
        .await;
    let first = match copied {
        Err(BucketError::Unsupported(_)) => {
            bucket.abort_parts(&key(31), &upload).await.expect("aborts");
            return;
        }
        copied => copied.expect("copies"),
    };
    let absent = bucket
        .copy_part(&key(31), &upload, slot(1, PART_BYTES + 7), &key(32), 0..10)
        .await;
    assert!(matches!(absent, Err(BucketError::NotFound)), "{absent:?}");
    let end = body(&["the end"]);
    let second = bucket
        .put_part(&key(31), &upload, slot(1, PART_BYTES + 7), &end)
        .await
        .expect("the last part");
    let mut chunks = source.slice(range).chunks().to_vec();
    chunks.extend_from_slice(end.chunks());
    let whole = Body::from(chunks);
    // Only the end needs to be known.
    let known = Body::ending_with(whole.size(), end.chunks().to_vec());
    bucket
        .complete_parts(&key(31), &upload, &[first, second], &known)
        .await
        .expect("completes");
    holds(bucket, 31, &whole).await;
}

#[tokio::test]
async fn a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let uri = BucketUri::File(folder.path().join("is/created"));
    keeps_the_contract(&StoreBucket::open(&uri).expect("opens")).await;
    // A second opening finds what the first one wrote.
    let reopened = StoreBucket::open(&uri).expect("opens again");
    assert_eq!(reopened.get(&key(1), 0..5).await.expect("there"), "hello");
}

#[tokio::test]
#[ignore = "needs MILLRACE_TEST_S3_URI, the address of an empty bucket"]
async fn an_s3_server() {
    let uri = std::env::var("MILLRACE_TEST_S3_URI").expect("MILLRACE_TEST_S3_URI names a bucket");
    let uri: BucketUri = uri.parse().expect("a bucket's address");
    keeps_the_contract(&StoreBucket::open(&uri).expect("opens")).await;
}
