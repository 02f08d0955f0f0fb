//! A broker in this process, on free ports and in a temporary folder.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]

pub mod faulty_proxy;

use std::{net::SocketAddr, path::Path};

use bytes::Bytes;
use millrace_broker::{Broker, BrokerConfig, Properties};
use millrace_record::{BatchBuilder, Compression, records};
use millrace_testkit::{Fetched, KafkaClient};
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A folder in which brokers run, one after the other.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(home.path().join("admin.token"), TOKEN).expect("writable");
        Self(home)
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn config(&self, extra: &[&str]) -> BrokerConfig {
        let home = self.path().display();
        let text = format!(
            "listeners=PLAINTEXT://127.0.0.1:0\nadmin.listener=127.0.0.1:0\n\
             admin.token.file={home}/admin.token\ndata.dir={home}/data\ncluster.id=test\n\
             s3.wal.path=0@file://{home}/wal/wal?capacity=67108864&iodepth=4\n\
             s3.data.buckets=0@file://{home}/objects\ns3.wal.cache.size=32MiB\n\
             s3.block.cache.size=16MiB\noffsets.topic.num.partitions=2\n"
        );
        let mut properties = Properties::parse(&text).expect("legal");
        extra
            .iter()
            .for_each(|line| properties.set_override(line).expect("legal"));
        BrokerConfig::new(&properties).unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    pub async fn start(&self, extra: &[&str]) -> Broker {
        Broker::start(self.config(extra))
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

pub fn address(broker: &Broker) -> SocketAddr {
    broker.addresses()[0].1
}

pub async fn client(broker: &Broker) -> KafkaClient {
    KafkaClient::connect(address(broker)).await
}

/// A certificate for `localhost` with its key, and without it as a root for clients; both PEM.
pub fn certificate() -> (String, String) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed");
    let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
    (pem, certificate.pem())
}

/// Status code and body of a GET.
pub async fn get(broker: &Broker, path: &str, token: Option<&str>) -> (u16, String) {
    let address = broker.admin_address().expect("the admin HTTP is on");
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let auth = token.map_or(String::new(), |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{auth}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.expect("a status line"), body.to_owned())
}

/// A batch of these values, at one millisecond apart from 1,000,000.
pub fn batch(values: &[&str], compression: Compression) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    for (value, timestamp) in values.iter().zip(1_000_000..) {
        builder.push(timestamp, None, Some(value.as_bytes()), &[]);
    }
    builder.build().freeze()
}

/// Offset and value of every record of a fetch.
pub fn values(fetched: &Fetched) -> Vec<(i64, String)> {
    assert_eq!(fetched.error_code, 0, "{fetched:?}");
    let mut rest = fetched.records.clone();
    let mut values = Vec::new();
    while !rest.is_empty() {
        let size = millrace_record::header_of(&rest)
            .expect("a sound batch")
            .size_bytes();
        for record in records(&rest.split_to(size)).expect("a sound batch") {
            let record = record.expect("a sound record");
            let value = record.value.expect("a value").to_vec();
            values.push((record.offset, String::from_utf8(value).expect("text")));
        }
    }
    values
}
