//! What every bucket promises, whatever is behind it. The same suite runs over a folder, over memory,
//! and over an S3 server (`--ignored`, `MILLRACE_TEST_S3_URI` names an empty bucket of it).

use bytes::Bytes;
use millrace_model::ObjectId;
use millrace_objects::{Body, Bucket, BucketError, BucketUri, ObjectKey, StoreBucket};

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
    put_only_creates(bucket).await;
    one_of_many_puts_wins(bucket).await;
    absent_objects(bucket).await;
    deletes(bucket).await;
    lists(bucket).await;
    large_objects(bucket).await;
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
