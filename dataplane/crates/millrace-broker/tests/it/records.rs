//! Records over the admin HTTP: reads, streams and produce requests against a whole broker.

use std::time::Duration;

use millrace_broker::Broker;
use millrace_client::{
    Admin, Client, ClientConfig, Compression, Producer, ProducerConfig, ProducerRecord,
    admin::NewTopic, transport::BrokerAddress,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

use crate::support::{Home, TOKEN, address, get as get_text};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn client(broker: &Broker) -> Client {
    let address = address(broker);
    let bootstrap = BrokerAddress::new(&address.ip().to_string(), address.port());
    Client::new(ClientConfig::with_addresses(vec![bootstrap]))
}

async fn create(broker: &Broker, topic: NewTopic) {
    let name = topic.name.clone();
    let results = Admin::new(&client(broker)).create_topics(&[topic]).await;
    assert!(results.expect("the broker answers")[&name].is_ok());
}

async fn connect(broker: &Broker) -> TcpStream {
    let address = broker.admin_address().expect("the admin HTTP is on");
    TcpStream::connect(address).await.expect("it listens")
}

fn head(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n{more}\r\n")
}

/// Status, head and JSON, if any, of a request whose connection ends with it.
pub(crate) async fn call(
    broker: &Broker,
    method: &str,
    path: &str,
    body: &[u8],
) -> (u16, String, Value) {
    let mut stream = connect(broker).await;
    let length = format!("Content-Length: {}\r\nConnection: close\r\n", body.len());
    let head = head(method, path, &length);
    stream.write_all(head.as_bytes()).await.expect("open");
    // The broker may answer before it has read all.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = match body {
        "" => Value::Null,
        body => serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")),
    };
    (status.expect("a status line"), head.to_owned(), body)
}

async fn post(broker: &Broker, topic: &str, body: &Value) -> Value {
    let path = format!("/v1/topics/{topic}/records");
    let (status, _, answer) = call(broker, "POST", &path, body.to_string().as_bytes()).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn get(broker: &Broker, topic: &str, query: &str) -> Value {
    let path = format!("/v1/topics/{topic}/records?{query}");
    let (status, _, answer) = call(broker, "GET", &path, b"").await;
    assert_eq!(status, 200, "{query}: {answer}");
    answer
}

/// Status and code of a request that is refused.
async fn refused(broker: &Broker, method: &str, path: &str, body: &str) -> (u16, String, String) {
    let (status, _, answer) = call(broker, method, path, body.as_bytes()).await;
    let text = |name: &str| answer["error"][name].as_str().expect("a text").to_owned();
    (status, text("code"), text("message"))
}

fn text(text: &str) -> Value {
    json!({"encoding": "text", "data": text})
}

/// The data of the values.
fn values(page: &Value) -> Vec<&str> {
    let records = page["records"].as_array().expect("a list").iter();
    records
        .map(|record| record["value"]["data"].as_str().expect("a value"))
        .collect()
}

/// Produces these values with these times and partitions.
async fn fill(broker: &Broker, topic: &str, records: &[(i32, i64, &str)]) {
    let record = |(partition, time, value): &(i32, i64, &str)| json!({"partition": partition, "timestamp_ms": time.to_string(), "value": text(value)});
    let records: Vec<_> = records.iter().map(record).collect();
    let answer = post(broker, topic, &json!({ "records": records })).await;
    for result in answer["results"].as_array().expect("a list") {
        assert!(result["offset"].is_string(), "{answer}");
    }
}

/// The body of a stream as it comes.
struct Body {
    stream: BufReader<TcpStream>,
    text: String,
}

impl Body {
    async fn open(stream: TcpStream, path: &str, more: &str) -> Self {
        let mut stream = BufReader::new(stream);
        let head = head("GET", path, more);
        stream.write_all(head.as_bytes()).await.expect("open");
        let mut answer = String::new();
        while !answer.ends_with("\r\n\r\n") {
            assert_ne!(stream.read_line(&mut answer).await.expect("text"), 0);
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("transfer-encoding: chunked"), "{answer}");
        let text = String::new();
        Self { stream, text }
    }

    /// The text up to the next end of an item; nothing at the end.
    async fn until(&mut self, end: &str) -> Option<String> {
        loop {
            if let Some((item, rest)) = self.text.split_once(end) {
                let (item, rest) = (item.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(item);
            }
            let mut size = String::new();
            let read = timeout(PATIENCE, self.stream.read_line(&mut size));
            read.await.expect("it goes on").expect("text");
            let size = usize::from_str_radix(size.trim(), 16).expect("a chunk's size");
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk).await.expect("a chunk");
            if size == 0 {
                return None;
            }
            chunk.truncate(size);
            self.text += &String::from_utf8(chunk).expect("text");
        }
    }

    /// The next line that is of this kind, with what is in it.
    async fn next(&mut self, kind: &str) -> Value {
        loop {
            let line = self.until("\n").await.expect("not the end");
            let mut item: Value = serde_json::from_str(&line).expect("JSON");
            if let Some(item) = item.get_mut(kind) {
                return item.take();
            }
            assert!(kind == "error" || item.get("error").is_none(), "{item}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_produced_is_read_as_it_was() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    create(&broker, NewTopic::new("t").partitions(2)).await;
    let records = json!([
        {"partition": 1, "key": text("k"), "value": text("grüße"), "timestamp_ms": "1700000000001",
         "headers": [{"name": "a", "value": text("1")}, {"name": "a", "value": null}]},
        {"partition": 1, "key": {"encoding": "hex", "data": "00FF"},
         "value": {"encoding": "base64", "data": "/wAB"}, "timestamp_ms": "1700000000002"},
        {"partition": 1, "key": text("k"), "value": null, "timestamp_ms": "1700000000003"},
        {"partition": 1, "value": text(""), "timestamp_ms": "1700000000004"},
    ]);
    for (round, compression) in ["none", "gzip", "snappy", "lz4", "zstd"].iter().enumerate() {
        let body = json!({"records": records, "compression": compression, "partitioner": "sticky"});
        let answer = post(&broker, "t", &body).await;
        let expected = |nth: usize| {
            json!({"partition": 1, "offset": (4 * round + nth).to_string(),
                   "timestamp_ms": (1_700_000_000_001_u64 + nth as u64).to_string()})
        };
        assert_eq!(answer["results"], json!([0, 1, 2, 3].map(expected)));
    }
    let page = get(&broker, "t", "partition=1&offset=16").await;
    let shown = |data: &str, bytes: u64| json!({"encoding": "text", "data": data, "bytes": bytes, "truncated": false});
    let time = |nth: u64| (1_700_000_000_000 + nth).to_string();
    let expected = json!([
        {"partition": 1, "offset": "16", "timestamp_ms": time(1), "timestamp_type": "create_time",
         "key": shown("k", 1), "value": shown("grüße", 7), "tombstone": false, "size_bytes": 11,
         "headers": [{"name": "a", "value": shown("1", 1)}, {"name": "a", "value": null}]},
        {"partition": 1, "offset": "17", "timestamp_ms": time(2), "timestamp_type": "create_time",
         "key": {"encoding": "base64", "data": "AP8=", "bytes": 2, "truncated": false},
         "value": {"encoding": "base64", "data": "/wAB", "bytes": 3, "truncated": false},
         "tombstone": false, "headers": [], "size_bytes": 5},
        {"partition": 1, "offset": "18", "timestamp_ms": time(3), "timestamp_type": "create_time",
         "key": shown("k", 1), "value": null, "tombstone": true, "headers": [], "size_bytes": 1},
        {"partition": 1, "offset": "19", "timestamp_ms": time(4), "timestamp_type": "create_time",
         "key": null, "value": shown("", 0), "tombstone": false, "headers": [], "size_bytes": 0},
    ]);
    assert_eq!(page["records"], expected);
    assert_eq!(page["end"], true);
    assert_eq!(page["scanned_records"], 4);
    let hex = get(&broker, "t", "partition=1&offset=17&limit=1&encoding=hex").await;
    assert_eq!(hex["records"][0]["value"]["data"], "ff0001");
    // What was read can be sent again.
    let again = page["records"][1].clone();
    let again =
        json!({"records": [{"key": again["key"], "value": again["value"], "partition": 0}]});
    post(&broker, "t", &again).await;
    let copy = get(&broker, "t", "partition=0").await;
    assert_eq!(copy["records"][0]["value"], page["records"][1]["value"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_record_has_its_own_result() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let topic = NewTopic::new("t").config("max.message.bytes", "2000");
    create(
        &broker,
        topic.config("message.timestamp.type", "LogAppendTime"),
    )
    .await;
    let body = json!({"records": [
        {"value": text("a")},
        {"value": text("b"), "partition": 7},
        {"value": text(&"c".repeat(4_000))},
        {"value": text("d"), "timestamp_ms": "5"},
    ]});
    let answer = post(&broker, "t", &body).await;
    let results = answer["results"].as_array().expect("a list");
    assert_eq!(results.len(), 4);
    assert_eq!(results[0]["partition"], 0, "{answer}");
    assert_eq!(results[1]["error"]["code"], "UNKNOWN_TOPIC_OR_PARTITION");
    assert_eq!(results[2]["error"]["code"], "MESSAGE_TOO_LARGE", "{answer}");
    assert!(results[3]["offset"].is_string(), "{answer}");
    let page = get(&broker, "t", "from=earliest").await;
    assert_eq!(values(&page), ["a", "d"]);
    let last = &page["records"][1];
    assert_eq!(last["timestamp_type"], "log_append_time");
    assert_eq!(last["timestamp_ms"], results[3]["timestamp_ms"]);
    assert_ne!(last["timestamp_ms"], "5");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_start_anywhere_and_cursors_continue() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    create(&broker, NewTopic::new("t").partitions(3)).await;
    let records = [
        (0, 1_000, "a"),
        (1, 2_000, "b"),
        (0, 3_000, "c"),
        (2, 4_000, "d"),
        (1, 5_000, "e"),
        (0, 6_000, "f"),
    ];
    fill(&broker, "t", &records).await;
    for (query, expected, end) in [
        ("", &["f", "e", "d", "c", "b", "a"][..], true),
        ("newest=2", &["f", "e"], true),
        ("newest=2&partition=0", &["f", "c"], true),
        ("from=earliest", &["a", "b", "c", "d", "e", "f"], true),
        ("from=earliest&partition=1,2", &["b", "d", "e"], true),
        ("from=earliest&limit=2", &["a", "b"], false),
        ("from=latest", &[], true),
        ("partition=0&offset=1", &["c", "f"], true),
        ("partition=0&offset=3", &[], true),
        ("time=3001", &["d", "e", "f"], true),
        ("time=1970-01-01T00:00:06Z", &["f"], true),
        ("time=6001", &[], true),
    ] {
        let page = get(&broker, "t", query).await;
        assert_eq!(values(&page), expected, "{query}");
        assert_eq!(page["end"], end, "{query}: {page}");
    }
    let page = get(&broker, "t", "partition=0&offset=1&limit=1").await;
    let status = json!([{"partition": 0, "earliest_offset": "0", "end_offset": "3",
                         "next_offset": "2"}]);
    assert_eq!(page["partitions"], status);
    // Page by page.
    let mut page = get(&broker, "t", "from=earliest&limit=4").await;
    let mut read: Vec<String> = Vec::new();
    loop {
        read.extend(values(&page).into_iter().map(ToOwned::to_owned));
        if page["end"] == true {
            break;
        }
        let cursor = page["cursor"].as_str().expect("a cursor");
        page = get(&broker, "t", &format!("limit=4&cursor={cursor}")).await;
    }
    assert_eq!(read, ["a", "b", "c", "d", "e", "f"]);
    // After the newest come those that are produced later, also in new partitions.
    let newest = get(&broker, "t", "newest=1").await;
    fill(&broker, "t", &[(1, 500, "g")]).await;
    let totals = std::collections::BTreeMap::from([("t".to_owned(), 4)]);
    let admin = Admin::new(&client(&broker));
    admin.create_partitions(&totals).await.expect("an answer");
    fill(&broker, "t", &[(3, 600, "h")]).await;
    let cursor = newest["cursor"].as_str().expect("a cursor");
    let later = get(&broker, "t", &format!("cursor={cursor}")).await;
    assert_eq!(values(&later), ["g", "h"]);
    // Deleted records are skipped.
    let before = std::collections::BTreeMap::from([(("t", 0).into(), 2)]);
    admin.delete_records(before).await.expect("an answer");
    let page = get(&broker, "t", "partition=0&newest=10").await;
    assert_eq!(values(&page), ["f"]);
    assert_eq!(page["partitions"][0]["earliest_offset"], "2");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_choose_and_bounds_cut() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    create(&broker, NewTopic::new("t").partitions(2)).await;
    let record = |nth: usize| {
        let header = json!([{"name": "kind", "value": text(["x", "y"][nth % 2])}]);
        json!({"partition": nth % 2, "timestamp_ms": nth.to_string(),
               "key": text(&format!("key-{}", nth % 10)),
               "value": text(&format!("value {nth} {}", "é".repeat(50))),
               "headers": if nth < 20 { header } else { json!([]) }})
    };
    let records: Vec<_> = (0..200).map(record).collect();
    post(
        &broker,
        "t",
        &json!({"records": records, "compression": "zstd"}),
    )
    .await;
    for (query, expected) in [
        ("from=earliest&text=value%2019%20", vec!["19"]),
        ("from=earliest&text=key-7&limit=2", vec!["7", "17"]),
        ("from=earliest&key=key-3&limit=3", vec!["3", "13", "23"]),
        ("newest=2&key=key-3", vec!["193", "183"]),
        ("newest=3&header=kind", vec!["19", "18", "17"]),
        ("newest=3&header=kind%3Dy&key=key-1", vec!["11", "1"]),
        ("from=earliest&header=kind=x&limit=2", vec!["0", "2"]),
        ("newest=5&key=key", vec![]),
    ] {
        let page = get(&broker, "t", query).await;
        let number = |value: &str| value.split(' ').nth(1).map(ToOwned::to_owned);
        let numbers: Vec<_> = values(&page).into_iter().filter_map(number).collect();
        assert_eq!(numbers, expected, "{query}");
    }
    let page = get(&broker, "t", "newest=5&key=key").await;
    assert_eq!(
        (&page["end"], &page["scanned_records"]),
        (&json!(true), &json!(200))
    );
    // 115 bytes each.
    let page = get(&broker, "t", "time=100&max_bytes=1000&limit=1000").await;
    assert_eq!(values(&page).len(), 8, "{page}");
    assert!(
        values(&page)[7].starts_with("value 107 "),
        "in the order of time"
    );
    assert_eq!(page["end"], false);
    let page = get(&broker, "t", "newest=1000&max_bytes=1").await;
    assert_eq!(values(&page).len(), 1, "at least one");
    let page = get(&broker, "t", "newest=1&value_bytes_max=11").await;
    let value = &page["records"][0]["value"];
    let expected = json!({"encoding": "text", "data": "value 199 ", "bytes": 110,
                          "truncated": true});
    assert_eq!(*value, expected);
    assert_eq!(page["records"][0]["size_bytes"], 115);
    broker.stop().await;
}

/// Requests that are refused: method and path below `/v1/topics/`, their body, status and code.
const WRONG: &[(&str, &str, u16, &str)] = &[
    ("GET nope/records", "", 404, UNKNOWN),
    ("GET nope/records/stream", "", 404, UNKNOWN),
    ("POST nope/records", r#"{"records":[{}]}"#, 404, UNKNOWN),
    ("GET t/records?partition=1", "", 404, UNKNOWN),
    ("GET t/records?limit=0", "", 400, INVALID),
    ("GET t/records/stream?limit=1", "", 400, INVALID),
    ("GET t/records?partition=0&offset=2", "", 400, OUT_OF_RANGE),
    ("PUT t/records", "", 405, "UNSUPPORTED_VERSION"),
    ("POST t/records", "{", 400, INVALID),
    ("POST t/records", r#"{"records":[]}"#, 400, INVALID),
    ("POST __own/records", r#"{"records":[{}]}"#, 400, INVALID),
];
const UNKNOWN: &str = "UNKNOWN_TOPIC_OR_PARTITION";
const INVALID: &str = "INVALID_REQUEST";
const OUT_OF_RANGE: &str = "OFFSET_OUT_OF_RANGE";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_with_a_code() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    for topic in ["t", "other", "__own"] {
        create(&broker, NewTopic::new(topic)).await;
    }
    fill(&broker, "t", &[(0, 1, "a")]).await;
    let page = get(&broker, "t", "").await;
    let cursor = page["cursor"].as_str().expect("a cursor");
    let of_another = format!("GET other/records?cursor={cursor}");
    let large = format!(r#"{{"records":[{{"key":"{}"}}]}}"#, "x".repeat(8 << 20));
    let more = [
        (of_another.as_str(), "", 400, INVALID),
        ("POST t/records", &large, 413, "REQUEST_TOO_LARGE"),
    ];
    for (request, body, status, code) in WRONG.iter().copied().chain(more) {
        let (method, path) = request.split_once(' ').expect("two");
        let path = format!("/v1/topics/{path}");
        let (has, is, message) = refused(&broker, method, &path, body).await;
        assert_eq!((has, &*is), (status, code), "{request}: {message}");
    }
    let bad = r#"{"records":[{},{"value":{"encoding":"hex","data":"0"}}]}"#;
    let (_, _, message) = refused(&broker, "POST", "/v1/topics/t/records", bad).await;
    assert!(message.starts_with("records[1].value: "), "{message}");
    assert_eq!(
        values(&get(&broker, "t", "").await),
        ["a"],
        "nothing was produced"
    );
    for (topic, offsets) in [
        ("t", "t-0 has offsets 0 to 0"),
        ("other", "other-0 is empty"),
    ] {
        let path = format!("/v1/topics/{topic}/records?partition=0&offset=2");
        let (_, _, message) = refused(&broker, "GET", &path, "").await;
        assert_eq!(message, format!("offset 2 does not exist: {offsets}"));
    }
    for path in ["/v1/topics/t/records", "/v1/topics/t/records/stream"] {
        assert_eq!(get_text(&broker, path, None).await.0, 401, "{path}");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_with_what_is_produced_until_the_broker_stops() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    create(&broker, NewTopic::new("t").partitions(2)).await;
    fill(
        &broker,
        "t",
        &[(0, 1_000, "a"), (1, 2_000, "b"), (0, 3_000, "c")],
    )
    .await;
    let path = "/v1/topics/t/records/stream?newest=2";
    let mut body = Body::open(connect(&broker).await, path, "").await;
    for expected in ["b", "c"] {
        assert_eq!(body.next("record").await["value"]["data"], expected);
    }
    let progress = body.next("progress").await;
    assert_eq!(progress["partitions"][0]["next_offset"], "2", "{progress}");
    for (partition, value) in [(1, "d"), (0, "e")] {
        fill(&broker, "t", &[(partition, 1, value)]).await;
        assert_eq!(body.next("record").await["value"]["data"], value);
    }
    let last = tokio::spawn(async move {
        let error = body.next("error").await;
        (error, body.until("\n").await)
    });
    assert_eq!(broker.stop().await.cut, 0);
    let (error, end) = last.await.expect("no panic");
    assert_eq!(error["code"], "BROKER_NOT_AVAILABLE");
    assert_eq!(end, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_a_topic_that_is_deleted_ends() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    create(&broker, NewTopic::new("t")).await;
    let path = "/v1/topics/t/records/stream?from=latest";
    let mut body = Body::open(connect(&broker).await, path, "").await;
    body.next("progress").await;
    let deleted = Admin::new(&client(&broker)).delete_topics(&["t"]).await;
    assert!(deleted.expect("an answer")["t"].is_ok());
    let error = body.next("error").await;
    assert_eq!(error["code"], "UNKNOWN_TOPIC_OR_PARTITION", "{error}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_resume_after_the_last_one_that_arrived() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    create(&broker, NewTopic::new("t").partitions(2)).await;
    let records = [
        (0, 1, "a x"),
        (1, 2, "b"),
        (0, 3, "c x"),
        (1, 4, "d x"),
        (0, 5, "e"),
    ];
    fill(&broker, "t", &records).await;
    let path = "/v1/topics/t/records/stream?from=earliest&text=x";
    let mut id = String::new();
    let mut read = Vec::new();
    while read.len() < 3 {
        let resume = match id.as_str() {
            "" => String::new(),
            id => format!("Last-Event-ID: {id}\r\n"),
        };
        let more = format!("Accept: text/event-stream\r\n{resume}");
        let mut body = Body::open(connect(&broker).await, path, &more).await;
        // One record, then the connection is lost.
        loop {
            let event = body.until("\n\n").await.expect("not the end");
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            if field("event: ") != Some("record") {
                continue;
            }
            field("id: ").expect("an id").clone_into(&mut id);
            let data: Value = serde_json::from_str(field("data: ").expect("data")).expect("JSON");
            let value = data["record"]["value"]["data"].as_str().expect("text");
            read.push(value.to_owned());
            break;
        }
    }
    read.sort();
    assert_eq!(read, ["a x", "c x", "d x"]);
    broker.stop().await;
}

/// The bytes that the broker has sent of a topic, by its own counter.
async fn bytes_out(broker: &Broker, topic: &str) -> u64 {
    let (_, metrics) = get_text(broker, "/metrics", Some(TOKEN)).await;
    let name = format!("millrace_topic_bytes_out_total{{topic=\"{topic}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.map_or(0, |number| number.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_reading_costs_no_fetches_within_two_seconds() {
    const COUNT: usize = 800;
    const MORE: usize = 100;
    let home = Home::new();
    let broker = home.start(&[]).await;
    create(&broker, NewTopic::new("stopped-reader").partitions(2)).await;
    let client = client(&broker);
    let produce = async |numbers: std::ops::Range<usize>| {
        let producer = Producer::new(&client, ProducerConfig::default()).expect("legal");
        for number in numbers {
            let value = format!("{number} {}", "x".repeat(10_000));
            let partition = i32::try_from(number % 2).expect("few");
            let record = ProducerRecord::to("stopped-reader").partition(partition);
            let record = record.value(value.as_bytes());
            drop(producer.send(record).await.expect("accepted"));
        }
        producer.close().await;
    };
    produce(0..COUNT).await;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(64 * 1024).expect("settable");
    let admin = broker.admin_address().expect("the admin HTTP is on");
    let stream = socket.connect(admin).await.expect("it listens");
    let path = "/v1/topics/stopped-reader/records/stream?from=earliest";
    let mut body = Body::open(stream, path, "").await;
    let mut next = [0, 1];
    let mut check = |record: &Value| {
        let value = record["value"]["data"].as_str().expect("text");
        let number: usize = value
            .split(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("one");
        assert_eq!(number, next[number % 2], "in order, none missing");
        next[number % 2] += 2;
    };
    for _ in 0..10 {
        check(&body.next("record").await);
    }
    // It stops. More is produced, and nothing of it is fetched.
    sleep(Duration::from_secs(2)).await;
    let sent = bytes_out(&broker, "stopped-reader").await;
    assert!(sent > 0 && sent < COUNT as u64 * 10_000 / 2, "{sent}");
    produce(COUNT..COUNT + MORE).await;
    sleep(Duration::from_millis(500)).await;
    assert_eq!(bytes_out(&broker, "stopped-reader").await, sent);
    // It goes on, where it was.
    for _ in 10..COUNT + MORE {
        check(&body.next("record").await);
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_reader_of_a_large_batch_makes_room_for_others_and_goes_on_where_it_was() {
    const COUNT: usize = 200;
    let home = Home::new();
    let broker = home.start(&[]).await;
    create(&broker, NewTopic::new("large-batch").partitions(1)).await;
    let mut config = ProducerConfig::default();
    config.compression = Compression::Zstd;
    config.linger = Duration::from_secs(5);
    config.batch_size = 24 << 20;
    config.max_request_size = 32 << 20;
    config.buffer_memory = 64 << 20;
    let producer = Producer::new(&client(&broker), config).expect("legal");
    for number in 0..COUNT {
        let value = format!("{number} {}", "x".repeat(100_000));
        let record = ProducerRecord::to("large-batch").value(value.as_bytes());
        drop(producer.send(record).await.expect("accepted"));
    }
    producer.close().await;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(64 * 1024).expect("settable");
    let admin = broker.admin_address().expect("the admin HTTP is on");
    let stream = socket.connect(admin).await.expect("it listens");
    let path = "/v1/topics/large-batch/records/stream?from=earliest";
    let mut body = Body::open(stream, path, "").await;
    let number = |record: &Value| -> usize {
        let value = record["value"]["data"].as_str().expect("text");
        let (number, _) = value.split_once(' ').expect("a number");
        number.parse().expect("a number")
    };
    assert_eq!(number(&body.next("record").await), 0);
    // While it stops, another one cannot wait for the memory of its batch, and then can.
    let path = "/v1/topics/large-batch/records?from=earliest&max_wait_ms=500";
    let (status, code, _) = refused(&broker, "GET", path, "").await;
    assert_eq!((status, &*code), (429, "TOO_MANY_REQUESTS"));
    let page = get(&broker, "large-batch", "from=earliest&max_wait_ms=10000").await;
    assert!(!values(&page).is_empty(), "{page}");
    for expected in 1..COUNT {
        assert_eq!(number(&body.next("record").await), expected);
    }
    broker.stop().await;
}

async fn connections(broker: &Broker) -> u64 {
    let (_, status) = get_text(broker, "/v1/status", Some(TOKEN)).await;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    status["connections"].as_u64().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded_and_those_that_are_left_leave_nothing() {
    const STREAMS_MAX: usize = 32;
    let home = Home::new();
    let broker = home.start(&[]).await;
    create(&broker, NewTopic::new("t")).await;
    fill(&broker, "t", &[(0, 1, "a")]).await;
    let path = "/v1/topics/t/records/stream?from=earliest";
    let mut streams = Vec::new();
    for _ in 0..STREAMS_MAX {
        let mut body = Body::open(connect(&broker).await, path, "").await;
        assert_eq!(body.next("record").await["value"]["data"], "a");
        streams.push(body);
    }
    let (status, head, error) = call(&broker, "GET", path, b"").await;
    assert_eq!(status, 429, "{error}");
    assert!(head.to_lowercase().contains("retry-after: 1"), "{head}");
    assert_eq!(error["error"]["code"], "TOO_MANY_REQUESTS");
    let with_streams = connections(&broker).await;
    assert!(with_streams >= STREAMS_MAX as u64, "{with_streams}");
    streams.clear();
    // What is left are the connections that all requests share: metadata, the producer's.
    let gone = async {
        while connections(&broker).await > with_streams - STREAMS_MAX as u64 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("they end");
    let mut body = Body::open(connect(&broker).await, path, "").await;
    assert_eq!(body.next("record").await["value"]["data"], "a");
    broker.stop().await;
}
