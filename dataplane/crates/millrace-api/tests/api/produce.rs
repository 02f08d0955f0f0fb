use bytes::BytesMut;
use kafka_protocol::{
    error::ResponseError as Code,
    messages::{InitProducerIdRequest, ProduceRequest},
};
use millrace_log::LogDefaults;
use millrace_model::{TopicName, TopicPartition};
use millrace_record::{BatchBuilder, Compression};
use millrace_time::SystemClock;
use millrace_wire::service::CloseReason;

use crate::{
    calls::{NAMED_PRODUCE, batch, only_partition, produce_request, values},
    world::{Sent, Settings, World, answer, frame},
};

#[tokio::test]
async fn what_is_produced_is_fetched_with_its_offsets() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    for (expected, values) in [(0, &["a", "b"][..]), (2, &["c"])] {
        let produced = world.produce("t", 1, batch(values)).await;
        assert_eq!((produced.error_code, produced.base_offset), (0, expected));
        assert_eq!(
            (produced.log_append_time_ms, produced.log_start_offset),
            (-1, 0)
        );
    }
    let fetched = world.fetch_from("t", 1, 1).await;
    assert_eq!((fetched.error_code, fetched.high_watermark), (0, 3));
    assert_eq!(
        values(&fetched),
        [(0, "a".into()), (1, "b".into()), (2, "c".into())]
    );
    assert_eq!(values(&world.fetch_from("t", 0, 0).await), []);
}

#[tokio::test]
async fn every_compression_passes_unchanged() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let all = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    for (at, compression) in all.into_iter().enumerate() {
        let mut builder = BatchBuilder::new(compression);
        builder.push(
            5,
            Some(b"k"),
            Some("x".repeat(500).as_bytes()),
            &[("h", Some(b"v"))],
        );
        let produced = world.produce("t", 0, builder.build()).await;
        assert_eq!(
            produced.error_code, 0,
            "{compression:?}: {:?}",
            produced.error_message
        );
        let fetched = world.fetch_from("t", 0, produced.base_offset).await;
        assert_eq!(values(&fetched), [(at as i64, "x".repeat(500))]);
    }
    let mut zstd = BatchBuilder::new(Compression::Zstd);
    zstd.push(5, None, Some(b"v"), &[]);
    let request = produce_request("t", &[(0, zstd.build())], -1);
    let refused = only_partition(world.ask(6, &request).await);
    assert_eq!(refused.error_code, Code::UnsupportedCompressionType.code());
}

#[tokio::test]
async fn partitions_fail_each_by_itself() {
    let world = World::new().await;
    world.create("t", 2, &[("max.message.bytes", "200")]).await;
    let mut corrupt = batch(&["x"]);
    let last = corrupt.len() - 1;
    corrupt[last] ^= 1;
    let two = [batch(&["a"]), batch(&["b"])].concat();
    let partitions = [
        (0, batch(&["good"])),
        (7, batch(&["nowhere"])),
        (-1, batch(&["nowhere"])),
        (1, corrupt),
        (1, batch(&[&"x".repeat(300)])),
        (1, BytesMut::new()),
        (1, BytesMut::from(&two[..])),
        (1, batch(&["good"])),
    ];
    let response = world
        .ask(NAMED_PRODUCE, &produce_request("t", &partitions, -1))
        .await;
    let codes: Vec<i16> = response.responses[0]
        .partition_responses
        .iter()
        .map(|p| p.error_code)
        .collect();
    let unknown = Code::UnknownTopicOrPartition.code();
    let expected = [
        0,
        unknown,
        unknown,
        Code::CorruptMessage.code(),
        Code::MessageTooLarge.code(),
        Code::InvalidRecord.code(),
        Code::InvalidRecord.code(),
        0,
    ];
    assert_eq!(codes, expected);
    assert_eq!(
        values(&world.fetch_from("t", 1, 0).await),
        [(0, "good".into())]
    );
    let response = world
        .ask(NAMED_PRODUCE, &produce_request("none", &partitions, -1))
        .await;
    let mut codes = response.responses[0]
        .partition_responses
        .iter()
        .map(|p| p.error_code);
    assert!(codes.all(|code| code == unknown));
}

#[tokio::test]
async fn what_is_no_batch_of_a_producer_is_refused() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let with = |at: usize, byte: u8| {
        let mut batch = batch(&["x"]);
        batch[at] = byte;
        batch
    };
    let mut cut = batch(&["x"]);
    cut.truncate(cut.len() - 1);
    let cases = [
        // A base offset that is not 0.
        (with(7, 100), Code::InvalidRecord),
        // Message formats: an old one, and one that does not exist.
        (with(16, 1), Code::InvalidRecord),
        (with(16, 7), Code::CorruptMessage),
        (cut, Code::InvalidRecord),
    ];
    for (batch, code) in cases {
        let refused = world.produce("t", 0, batch).await;
        let found = (refused.error_code, refused.base_offset);
        assert_eq!(found, (code.code(), -1), "{:?}", refused.error_message);
    }
    assert_eq!(values(&world.fetch_from("t", 0, 0).await), []);
}

#[tokio::test]
async fn a_record_that_no_consumer_could_read_is_refused() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let mut broken = batch(&["abc"]);
    // The record's own length, with a checksum that fits.
    let header = millrace_record::header::HEADER_BYTES;
    broken[header] = 0x7f;
    let crc = crc32c(&broken[21..]);
    broken[17..21].copy_from_slice(&crc.to_be_bytes());
    let refused = world.produce("t", 0, broken).await;
    assert_eq!(refused.error_code, Code::InvalidRecord.code());
}

/// The checksum of a batch, worked out bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0x82f6_3b78
            } else {
                crc >> 1
            }
        })
    })
}

#[tokio::test]
async fn a_compacted_topic_wants_keys() {
    let world = World::new().await;
    world.create("t", 1, &[("cleanup.policy", "compact")]).await;
    let mut builder = BatchBuilder::new(Compression::None);
    for key in [Some(&b"k"[..]), None, Some(b"l"), None] {
        builder.push(1, key, Some(b"v"), &[]);
    }
    let refused = world.produce("t", 0, builder.build()).await;
    assert_eq!(refused.error_code, Code::InvalidRecord.code());
    let errors = refused.record_errors.iter().map(|error| error.batch_index);
    assert_eq!(errors.collect::<Vec<_>>(), [1, 3]);
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(1, Some(b"k"), Some(b"v"), &[]);
    assert_eq!(world.produce("t", 0, builder.build()).await.error_code, 0);
}

#[tokio::test]
async fn acks_are_all_one_or_none() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    for acks in [1, -1] {
        let request = produce_request("t", &[(0, batch(&["x"]))], acks);
        assert_eq!(
            only_partition(world.ask(NAMED_PRODUCE, &request).await).error_code,
            0
        );
    }
    for (partition, code) in [
        (0, Code::InvalidRequiredAcks),
        (9, Code::UnknownTopicOrPartition),
    ] {
        let request = produce_request("t", &[(partition, batch(&["x"]))], 2);
        let refused = only_partition(world.ask(NAMED_PRODUCE, &request).await);
        assert_eq!(refused.error_code, code.code());
    }

    let request = produce_request("t", &[(0, batch(&["silent"]))], 0);
    let Sent::Silent(done) = world.send(NAMED_PRODUCE, &request).await else {
        panic!("no answer is wanted")
    };
    done.await;
    assert_eq!(
        values(&world.fetch_from("t", 0, 2).await),
        [(2, "silent".into())]
    );
    let request = produce_request("t", &[(9, batch(&["lost"]))], 0);
    let sent = world.send(NAMED_PRODUCE, &request).await;
    assert!(matches!(sent, Sent::Closed(CloseReason::Unacknowledged(_))));
}

#[tokio::test]
async fn pipelined_requests_keep_their_order() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let mut sent = Vec::new();
    for at in 0..50 {
        let request = produce_request("t", &[(0, batch(&[&at.to_string()]))], -1);
        sent.push(world.send(NAMED_PRODUCE, &request).await);
    }
    for (at, sent) in sent.into_iter().enumerate() {
        let response = answer::<ProduceRequest>(NAMED_PRODUCE, sent).await;
        assert_eq!(only_partition(response).base_offset, at as i64);
    }
}

#[tokio::test]
async fn idempotent_producers_are_checked() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let given = world
        .ask(
            5,
            &InitProducerIdRequest::default().with_transactional_id(None),
        )
        .await;
    assert_eq!((given.error_code, given.producer_epoch), (0, 0));
    let other = world
        .ask(
            0,
            &InitProducerIdRequest::default().with_transactional_id(None),
        )
        .await;
    assert_ne!(other.producer_id, given.producer_id);
    let sequenced = |sequence| {
        let builder = BatchBuilder::new(Compression::None);
        let mut builder = builder.producer(given.producer_id.0, 0, sequence);
        builder.push(1, None, Some(b"v"), &[]);
        builder.build()
    };
    assert_eq!(world.produce("t", 0, sequenced(0)).await.base_offset, 0);
    assert_eq!(world.produce("t", 0, sequenced(1)).await.base_offset, 1);
    let duplicate = world.produce("t", 0, sequenced(0)).await;
    assert_eq!((duplicate.error_code, duplicate.base_offset), (0, 0));
    let gap = world.produce("t", 0, sequenced(5)).await;
    assert_eq!(gap.error_code, Code::OutOfOrderSequenceNumber.code());
}

#[tokio::test]
async fn topics_are_named_by_id_from_version_13() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let id = world
        .logs
        .topics()
        .iter()
        .find(|t| t.name.as_str() == "t")
        .expect("created")
        .id;
    let mut request = produce_request("", &[(0, batch(&["x"]))], -1);
    request.topic_data[0].topic_id = id.0;
    assert_eq!(only_partition(world.ask(13, &request).await).error_code, 0);
    request.topic_data[0].topic_id = uuid_of(1);
    let refused = only_partition(world.ask(13, &request).await);
    assert_eq!(refused.error_code, Code::UnknownTopicId.code());
}

fn uuid_of(number: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(number)
}

#[tokio::test]
async fn nobody_writes_to_the_groups_log() {
    let world = World::new().await;
    world.find_coordinator().await;
    let refused = world.produce("__consumer_offsets", 0, batch(&["x"])).await;
    assert_eq!(refused.error_code, Code::InvalidTopicException.code());
}

#[tokio::test]
async fn malformed_frames_end_the_connection_and_nothing_else() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    for bytes in [
        &b""[..],
        b"\0",
        &[0; 8],
        &[0xff; 40],
        &[0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 9],
    ] {
        let sent = world.send_frame(BytesMut::from(bytes)).await;
        assert!(
            matches!(sent, Sent::Closed(CloseReason::Malformed(_))),
            "{bytes:?}"
        );
    }
    assert_eq!(world.produce("t", 0, batch(&["x"])).await.error_code, 0);
}

/// One batch in a frame of its own stays where it is; a small part of a frame is copied, since it would
/// keep all of the frame in memory for as long as it is in the cache.
#[tokio::test]
async fn a_small_part_of_a_frame_does_not_keep_all_of_it() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let partition = TopicPartition {
        topic: TopicName::new("t").expect("legal"),
        partition: 0,
    };
    let log = world.logs.partition(&partition).expect("there");
    for (beside, is_kept) in [(0, true), (4_096, false), (8 << 20, false)] {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(5, None, Some(&[b'x'; 8_192]), &[]);
        let request = produce_request("t", &[(0, builder.build())], -1);
        let mut sent = frame(NAMED_PRODUCE, 1, &request);
        // What follows the message is ignored, and in memory.
        sent.resize(sent.len() + beside, 0);
        let frame = sent.as_ptr_range();
        let produced = world.send_frame(sent).await;
        let produced = only_partition(answer::<ProduceRequest>(NAMED_PRODUCE, produced).await);
        assert_eq!(produced.error_code, 0);
        let offset = u64::try_from(produced.base_offset).expect("an offset");
        let read = log.read(offset, 1, true).await.expect("in memory");
        let cached = read.batches[0].as_ptr();
        assert_eq!(frame.contains(&cached), is_kept, "{beside} bytes beside it");
    }
}

#[tokio::test]
async fn more_producers_than_may_be_remembered_are_refused_and_the_others_go_on() {
    let defaults = LogDefaults {
        producer_ids_max: 2,
        ..LogDefaults::default()
    };
    let world = World::with(Settings {
        defaults,
        ..Settings::default()
    })
    .await;
    world.create("t", 2, &[]).await;
    let produce = async |producer: i64, partition: i32, sequence: i32| {
        let mut builder = BatchBuilder::new(Compression::None).producer(producer, 0, sequence);
        builder.push(5, None, Some(b"v"), &[]);
        world.produce("t", partition, builder.build()).await
    };
    assert_eq!(produce(1, 0, 0).await.error_code, 0);
    assert_eq!(
        produce(1, 1, 0).await.error_code,
        0,
        "it costs each partition"
    );
    let refused = produce(2, 0, 0).await;
    assert_eq!(refused.error_code, Code::PolicyViolation.code());
    let message = refused.error_message.expect("says what to do");
    assert!(message.contains("producer.ids.max"), "{message}");
    assert_eq!(produce(1, 0, 1).await.error_code, 0);
    assert_eq!(
        world
            .produce("t", 0, batch(&["of no producer"]))
            .await
            .error_code,
        0
    );
    let metrics = world.logs.metrics();
    assert_eq!((metrics.producers, metrics.producers_max), (2, 2));
}

#[tokio::test]
async fn create_times_stay_within_the_topics_bounds() {
    let world = World::new().await;
    let configs = [("message.timestamp.before.max.ms", "60000")];
    world.create("t", 1, &configs).await;
    let now = SystemClock::shared().wall_ms();
    let produce = async |version, timestamps: &[i64]| {
        let mut builder = BatchBuilder::new(Compression::Lz4);
        for timestamp in timestamps {
            builder.push(*timestamp, Some(b"k"), Some(b"v"), &[]);
        }
        let request = produce_request("t", &[(0, builder.build())], -1);
        only_partition(world.ask(version, &request).await)
    };
    let refused = produce(9, &[now, now - 120_000, -1, now + 7_200_000]).await;
    assert_eq!(refused.error_code, Code::InvalidTimestamp.code());
    let records = &refused.record_errors;
    let indexes: Vec<_> = records.iter().map(|record| record.batch_index).collect();
    assert_eq!(indexes, [1, 3]);
    let message = records[0].batch_index_error_message.clone();
    let message = message.unwrap_or_default();
    assert!(
        message.contains(&format!("Timestamp {}", now - 120_000)),
        "{message}"
    );
    // Older responses have no room for single records.
    let refused = produce(7, &[now + 7_200_000]).await;
    assert_eq!(refused.error_code, Code::InvalidTimestamp.code());
    let kept = produce(9, &[-1, now - 30_000, now + 1_800_000]).await;
    assert_eq!(kept.error_code, 0, "{:?}", kept.error_message);
}

#[tokio::test]
async fn append_times_are_the_brokers_whatever_was_sent() {
    let world = World::new().await;
    let configs = [("message.timestamp.type", "LogAppendTime")];
    world.create("t", 1, &configs).await;
    let now = SystemClock::shared().wall_ms();
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(now + 7_200_000, None, Some(b"v"), &[]);
    let produced = world.produce("t", 0, builder.build()).await;
    assert_eq!(produced.error_code, 0, "{:?}", produced.error_message);
    assert!((now..now + 60_000).contains(&produced.log_append_time_ms));
}

#[tokio::test]
async fn a_topic_compresses_what_was_sent_with_another_codec() {
    let world = World::new().await;
    let all = [
        ("uncompressed", Compression::None),
        ("gzip", Compression::Gzip),
        ("snappy", Compression::Snappy),
        ("lz4", Compression::Lz4),
        ("zstd", Compression::Zstd),
    ];
    let mut largest = Vec::new();
    for (name, target) in all {
        let configs = [
            ("compression.type", name),
            ("compression.gzip.level", "9"),
            ("compression.lz4.level", "12"),
            ("compression.zstd.level", "19"),
        ];
        world.create(name, 1, &configs).await;
        for (at, (_, sent)) in all.into_iter().enumerate() {
            let mut builder = BatchBuilder::new(sent);
            let value = "x".repeat(500);
            builder.push(5, Some(b"k"), Some(value.as_bytes()), &[("h", Some(b"v"))]);
            let produced = world.produce(name, 0, builder.build()).await;
            assert_eq!(
                produced.error_code, 0,
                "{name}: {:?}",
                produced.error_message
            );
            let fetched = world.fetch_from(name, 0, produced.base_offset).await;
            assert_eq!(values(&fetched), [(at as i64, value)]);
            let batch = fetched.records.expect("records");
            let header = millrace_record::header_of(&batch).expect("a batch");
            assert_eq!(header.compression(), Ok(target));
            largest.push(batch.len());
        }
    }
    assert!(largest.iter().any(|bytes| *bytes > 500) && largest.iter().any(|bytes| *bytes < 200));
}

#[tokio::test]
async fn the_largest_batch_is_what_is_sent_and_what_is_stored() {
    let world = World::new().await;
    let configs = [
        ("max.message.bytes", "1000"),
        ("compression.type", "uncompressed"),
    ];
    world.create("t", 1, &configs).await;
    let batch_of = |bytes: usize, compression| {
        let mut builder = BatchBuilder::new(compression);
        builder.push(5, None, Some("x".repeat(bytes).as_bytes()), &[]);
        builder.build()
    };
    let too_large = Code::MessageTooLarge.code();
    let sent = world
        .produce("t", 0, batch_of(2_000, Compression::None))
        .await;
    assert_eq!(sent.error_code, too_large);
    // Small as it is sent, too large as it would be stored.
    let stored = world
        .produce("t", 0, batch_of(2_000, Compression::Zstd))
        .await;
    assert_eq!(stored.error_code, too_large);
    let fits = world
        .produce("t", 0, batch_of(500, Compression::Zstd))
        .await;
    assert_eq!(fits.error_code, 0);
    let configs = [
        ("max.message.bytes", "4000000"),
        ("segment.bytes", "1048576"),
    ];
    world.create("s", 1, &configs).await;
    let beyond = world
        .produce("s", 0, batch_of(2_000_000, Compression::None))
        .await;
    assert_eq!(beyond.error_code, Code::RecordListTooLarge.code());
}
