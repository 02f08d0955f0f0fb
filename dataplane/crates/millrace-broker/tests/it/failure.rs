//! A device that fails: loud, at once, and without an acknowledgement that is not true.

use std::time::Duration;

use crate::support::{Home, batch, client, values};
use millrace_broker::{Broker, Closed, Seams};
use millrace_record::Compression;
use millrace_testkit::{Crash, KafkaClient, SimDisk};
use millrace_time::SeededRandom;

const DISK_BYTES: u64 = 64 << 20;
const LATENCY: Duration = Duration::from_micros(200);

async fn start(home: &Home, disk: &SimDisk) -> Broker {
    let seams = Seams {
        device: Some(disk.attach()),
        ..Seams::system()
    };
    let config = home.config(&[]);
    Broker::start_with(config, seams)
        .await
        .unwrap_or_else(|error| panic!("{error}"))
}

async fn append(client: &mut KafkaClient, text: &str) -> Result<i64, i16> {
    client
        .produce("t", 0, batch(&[text], Compression::None))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_device_acknowledges_nothing_and_the_next_start_has_all_that_was() {
    let home = Home::new();
    let disk = SimDisk::new(DISK_BYTES, LATENCY, SeededRandom::shared(7));
    let broker = start(&home, &disk).await;
    let mut first = client(&broker).await;
    assert_eq!(first.create_topic("t", 1).await, 0);
    assert_eq!(append(&mut first, "kept").await, Ok(0));
    disk.fail_writes_after(0);
    let refused = append(&mut first, "refused").await;
    assert!(refused.is_err(), "{refused:?}");
    let reason = tokio::time::timeout(Duration::from_secs(10), broker.failed()).await;
    assert!(reason.is_ok(), "the failure is declared");
    assert!(append(&mut first, "refused, too").await.is_err());
    drop(first);
    assert!(matches!(broker.stop().await.storage, Closed::Failed(_)));

    disk.crash(Crash::PowerLoss);
    let broker = start(&home, &disk).await;
    let mut second = client(&broker).await;
    let read = second.fetch("t", 0, 0, Duration::ZERO).await;
    assert_eq!(values(&read)[0], (0, "kept".to_owned()));
    assert!(append(&mut second, "goes on").await.is_ok());
    assert_eq!(broker.stop().await.storage, Closed::Uploaded);
}
