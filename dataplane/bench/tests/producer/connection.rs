//! The client's calls, one by one.

use std::{net::TcpListener, time::Duration};

use bytes::BytesMut;
use millrace_bench::producer::{
    BatchTemplate, ClientError, Connection, PartitionAnswer, ProducerIdentity, Stamp,
};

use crate::scripted_broker::{Fault, start};

const PATIENCE: Duration = Duration::from_secs(20);

fn batch(count: usize, base_sequence: i32) -> Vec<u8> {
    let template = BatchTemplate::random(100, 2_000, 1);
    let stamp = Stamp {
        timestamp_ms: 1_700_000_000_000,
        producer: Some(ProducerIdentity { id: 7, epoch: 0 }),
        base_sequence,
    };
    [&template.header(count, &stamp)[..], template.records(count)].concat()
}

#[test]
fn produce_is_pipelined_and_answers_name_their_request() {
    let (address, broker) = start(Fault::Refuse(1, 45));
    let mut client = Connection::connect(address, "test", PATIENCE).expect("connects");
    client.create_topic("topic", 2, PATIENCE).expect("is made");
    assert_eq!(client.partitions_of("topic").expect("has some"), 2);
    // The broker has no ids at first.
    let identity = client.init_producer_id().expect("gets one");
    assert_eq!(identity, ProducerIdentity { id: 7, epoch: 0 });

    let [two, three] = [batch(2, 0), batch(3, 2)];
    let both = [(0, &two[..]), (1, &two[..])];
    let first = client.send_produce("topic", &both).expect("is sent");
    let second = client
        .send_produce("topic", &[(1, &three)])
        .expect("is sent");
    let answer = client.await_produce().expect("is answered");
    assert_eq!(answer.correlation_id, first);
    let appended = |partition, base_offset| PartitionAnswer {
        partition,
        error_code: 0,
        base_offset,
    };
    assert_eq!(answer.partitions, [appended(0, 0), appended(1, 0)]);
    let answer = client.await_produce().expect("is answered");
    assert_eq!(answer.correlation_id, second);
    let refused = PartitionAnswer {
        partition: 1,
        error_code: 45,
        base_offset: -1,
    };
    assert_eq!(answer.partitions, [refused]);

    drop(client);
    let seen = broker.join().expect("all batches are legal");
    assert_eq!(seen.produces, 2);
}

#[test]
fn a_fetch_gives_the_batches_as_they_are() {
    let (address, broker) = start(Fault::None);
    let mut client = Connection::connect(address, "test", PATIENCE).expect("connects");
    let sent = batch(4, 0);
    client
        .send_produce("topic", &[(0, &sent)])
        .expect("is sent");
    client.await_produce().expect("is answered");
    let fetched = client.fetch("topic", 0, 0, 1 << 20, Duration::ZERO);
    let fetched = fetched.expect("is answered");
    assert_eq!((fetched.error_code, fetched.high_watermark), (0, 4));
    assert_eq!(BytesMut::from(fetched.records), sent);
    let beyond = client.fetch("topic", 0, 5, 1 << 20, Duration::ZERO);
    assert_eq!(beyond.expect("is answered").error_code, 1);
    drop(client);
    broker.join().expect("nothing odd");
}

#[test]
fn refusals_and_silence_are_told_apart() {
    let (address, _broker) = start(Fault::None);
    let mut client = Connection::connect(address, "test", PATIENCE).expect("connects");
    match client.partitions_of("no such topic") {
        Err(ClientError::Refused { code: 3, .. }) => {}
        other => panic!("{other:?}"),
    }
    // Listens, but never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address");
    match Connection::connect(address, "test", Duration::from_millis(50)) {
        Err(ClientError::Io(_)) => {}
        other => panic!("{other:?}"),
    }
}
