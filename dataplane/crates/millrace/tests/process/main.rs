//! The program as a process: signals, exit codes, `kill -9`, performance tests.

mod cluster;
mod perf;
mod zones;

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU16, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use millrace_record::{BatchBuilder, Compression, records};
use millrace_testkit::{KafkaClient, PRODUCE_VERSION, produce_request};
use millrace_wire::{
    StrBytes,
    messages::{
        IncrementalAlterConfigsRequest, ProduceRequest,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    },
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millrace");
/// Neither a start nor a stop takes longer, unless it hangs.
const SOON: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

struct Home {
    folder: TempDir,
    kafka: SocketAddr,
}

/// A broker process; killed when this is dropped.
struct Running {
    child: Child,
    kafka: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An address that nobody listens on, and that neither the kernel nor another call of this gives away before a broker
/// listens there.
fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(ABOVE_EPHEMERAL_PORTS);
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if std::net::TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Linux gives away 32768 to 60999.
const ABOVE_EPHEMERAL_PORTS: u16 = 61_000;

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let kafka = free_address();
        let home = folder.path().display();
        let text = format!(
            "listeners=PLAINTEXT://{kafka}\nadmin.listener=none\ndata.dir={home}/data\n\
             s3.wal.path=0@file://{home}/wal/wal?capacity=67108864&iodepth=8\n\
             s3.data.buckets=0@file://{home}/objects\ns3.wal.cache.size=32MiB\n\
             s3.wal.upload.interval.ms=300\n"
        );
        std::fs::write(folder.path().join("server.properties"), text).expect("writable");
        Self { folder, kafka }
    }

    /// The same with these settings as well.
    fn with(lines: &str) -> Self {
        let home = Self::new();
        let file = home.path().join("server.properties");
        let text = std::fs::read_to_string(&file).expect("readable");
        std::fs::write(file, format!("{text}{lines}\n")).expect("writable");
        home
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .arg("broker")
            .arg("--config")
            .arg(self.path().join("server.properties"));
        command
    }

    /// Adds one line to the settings, in place of the one that was added before.
    fn set(&self, line: &str) {
        let file = self.path().join("server.properties");
        let text = std::fs::read_to_string(&file).expect("readable");
        let kept = text.lines().filter(|line| !line.starts_with("test."));
        let text: Vec<&str> = kept.chain([line]).collect();
        std::fs::write(file, text.join("\n")).expect("writable");
    }

    fn spawn(&self) -> Child {
        let mut appending = std::fs::OpenOptions::new();
        appending.create(true).append(true);
        let log = appending.open(self.path().join("log")).expect("writable");
        self.command()
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it starts")
    }

    async fn start(&self) -> Running {
        let mut running = Running {
            child: self.spawn(),
            kafka: self.kafka,
        };
        let ready = async {
            while TcpStream::connect(self.kafka).await.is_err() || !running.answers().await {
                if let Some(status) = running.child.try_wait().expect("our child") {
                    panic!("the broker ended with {status}: {}", self.log());
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(SOON, ready)
            .await
            .expect("it is ready soon");
        running
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }
}

impl Running {
    /// Ports are bound before the log is recovered; an answer means that clients are served.
    async fn answers(&self) -> bool {
        let metadata = async { self.client().await.metadata("t").await };
        tokio::time::timeout(Duration::from_secs(5), metadata)
            .await
            .is_ok()
    }

    async fn client(&self) -> KafkaClient {
        KafkaClient::connect(self.kafka).await
    }

    async fn terminate(mut self) -> ExitStatus {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), Signal::TERM).expect("our child");
        let ended = async {
            loop {
                if let Some(status) = self.child.try_wait().expect("our child") {
                    return status;
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(SOON, ended)
            .await
            .expect("it stops soon")
    }

    fn kill_9(mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
    }
}

fn numbered(number: i64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(
        1_000,
        None,
        Some(format!("{number:08}-{}", "x".repeat(500)).as_bytes()),
        &[],
    );
    builder.build().freeze()
}

/// All numbers in the partition, checked to lie at contiguous offsets.
async fn read_all(client: &mut KafkaClient) -> Vec<i64> {
    let end = client
        .offset_at("t", 0, -1)
        .await
        .expect("the partition answers");
    let mut numbers = Vec::new();
    let mut next = 0;
    while next < end {
        let fetched = client.fetch("t", 0, next, Duration::ZERO).await;
        assert_eq!(fetched.error_code, 0);
        let mut rest = fetched.records;
        assert!(!rest.is_empty(), "nothing at {next} of {end}");
        while !rest.is_empty() {
            let size = millrace_record::header_of(&rest)
                .expect("a sound batch")
                .size_bytes();
            for record in records(&rest.split_to(size)).expect("a sound batch") {
                let record = record.expect("a sound record");
                assert_eq!(record.offset, next, "offsets are contiguous");
                next += 1;
                let value = record.value.expect("a value");
                let digits = std::str::from_utf8(&value[..8]).expect("digits");
                numbers.push(digits.parse().expect("digits"));
            }
        }
    }
    numbers
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_record_is_lost_when_the_process_is_killed() {
    const ROUNDS: usize = 6;
    const IN_FLIGHT: usize = 5;
    let home = Home::new();
    let mut number = 0;
    let mut acknowledged: Vec<i64> = Vec::new();
    for round in 0..ROUNDS {
        let running = home.start().await;
        let mut client = running.client().await;
        let mut in_flight = std::collections::VecDeque::new();
        // Different lengths, so that the kill falls into appends, uploads and commits.
        for _ in 0..(150 + 97 * round) {
            let request = produce_request("t", 0, numbered(number));
            in_flight.push_back((number, client.send(PRODUCE_VERSION, &request).await));
            number += 1;
            if in_flight.len() == IN_FLIGHT {
                let (sent, id) = in_flight.pop_front().expect("five are there");
                let answer = client.receive::<ProduceRequest>(PRODUCE_VERSION, id).await;
                assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
                acknowledged.push(sent);
            }
        }
        running.kill_9();
    }
    let running = home.start().await;
    let stored = read_all(&mut running.client().await).await;
    assert!(stored.is_sorted_by(|a, b| a < b), "in order, none twice");
    let lost: Vec<&i64> = acknowledged
        .iter()
        .filter(|number| stored.binary_search(number).is_err())
        .collect();
    assert!(lost.is_empty(), "lost {lost:?} of {}", acknowledged.len());
    assert!(running.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_stops_in_peace_and_keeps_everything() {
    let home = Home::new();
    let running = home.start().await;
    let mut client = running.client().await;
    for number in 0..100 {
        assert_eq!(client.produce("t", 0, numbered(number)).await, Ok(number));
    }
    let status = running.terminate().await;
    assert!(status.success(), "{status}: {}", home.log());
    let wal = home.path().join("wal/wal");
    let shown = Command::new(PROGRAM)
        .arg("inspect")
        .arg("wal")
        .arg(&wal)
        .output();
    let shown: serde_json::Value =
        serde_json::from_slice(&shown.expect("it runs").stdout).expect("JSON");
    assert_eq!(shown["closed_cleanly"], true, "{shown}");
    assert_eq!(shown["records"], 0, "all is uploaded: {shown}");
    let running = home.start().await;
    let stored = read_all(&mut running.client().await).await;
    assert_eq!(stored, (0..100).collect::<Vec<i64>>());
    running.terminate().await;
    inspect_objects(&home);
}

/// A record of the log that is not uploaded rots: its partition is offline until somebody accepts what is
/// lost, and no other. `OPERATIONS.md` describes the way out.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_of_the_log_costs_its_own_partition() {
    let home = Home::new();
    let settings = home.path().join("server.properties");
    let text = std::fs::read_to_string(&settings).expect("readable");
    let lazy = text.replace("interval.ms=300\n", "interval.ms=3600000\n");
    std::fs::write(&settings, lazy).expect("writable");
    let running = home.start().await;
    let mut client = running.client().await;
    // The other topic was created by whoever looked whether the broker answers.
    assert_eq!(client.create_topic("rotten", 1).await, 0);
    for topic in ["rotten", "t"] {
        assert_eq!(client.produce(topic, 0, numbered(0)).await, Ok(0));
    }
    running.kill_9();
    let wal = home.path().join("wal/wal");
    // The first record, behind the log's header, in its payload.
    flip(&wal, 128 * 1024 + 300);

    let running = home.start().await;
    let mut client = running.client().await;
    assert_eq!(client.produce("rotten", 0, numbered(1)).await, Err(56));
    assert_eq!(client.produce("t", 0, numbered(1)).await, Ok(1));
    let status = running.terminate().await;
    assert!(status.success(), "{status}: {}", home.log());
    let shown = Command::new(PROGRAM)
        .args(["inspect", "wal"])
        .arg(&wal)
        .output()
        .expect("it runs");
    assert_eq!(shown.status.code(), Some(1));
    let lines = String::from_utf8(shown.stdout).expect("UTF-8");
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["records_damaged"], 1, "{lines:?}");
    assert_eq!(lines[1]["base_offset"], 0, "{lines:?}");
    assert!(lines[1]["stream"].is_u64(), "{lines:?}");

    std::fs::rename(&wal, home.path().join("wal/damaged")).expect("renamed");
    let mut adopt = Command::new(PROGRAM);
    adopt
        .args(["adopt", "--yes", "--config"])
        .arg(home.path().join("server.properties"));
    let adopted = adopt.output().expect("it runs");
    assert!(adopted.status.success(), "{adopted:?}");
    let running = home.start().await;
    let mut client = running.client().await;
    assert_eq!(client.produce("rotten", 0, numbered(2)).await, Ok(0));
    assert_eq!(read_all(&mut client).await, [0, 1]);
    assert!(running.terminate().await.success());
}

/// Changes one byte of a file.
fn flip(file: &Path, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(file);
    let (file, mut byte) = (file.expect("there"), [0]);
    file.read_exact_at(&mut byte, at).expect("readable");
    file.write_all_at(&[byte[0] ^ 1], at).expect("writable");
    file.sync_all().expect("written");
}

/// Shows every object of the bucket; each block is checked against its checksum on the way.
fn inspect_objects(home: &Home) {
    let objects = home.path().join("objects");
    let folders = |path: &Path| -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(path).expect("a folder");
        entries
            .map(|entry| entry.expect("readable").path())
            .collect()
    };
    let mut shown = 0;
    // The metadata's mark and backup are no objects of streams.
    let mut prefixes = folders(&objects);
    prefixes.retain(|prefix| !prefix.ends_with("meta"));
    let clusters: Vec<_> = prefixes.iter().flat_map(|prefix| folders(prefix)).collect();
    for file in clusters.iter().flat_map(|cluster| folders(cluster)) {
        let name = |path: &Path| {
            path.file_name()
                .expect("named")
                .to_string_lossy()
                .into_owned()
        };
        let cluster = name(file.parent().expect("in a folder"));
        let number = u64::from_str_radix(&name(&file), 16).expect("named by its number");
        let bucket = format!("file://{}", objects.display());
        let output = Command::new(PROGRAM)
            .args(["inspect", "object", &bucket, &cluster, &number.to_string()])
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && text.contains("payload_bytes"),
            "{file:?}: {text}"
        );
        inspect_together(&bucket, &cluster, &file);
        shown += 1;
    }
    assert!(shown > 0, "something was uploaded");
}

/// Shows all objects of the cluster, sound and with one byte of `file` changed.
fn inspect_together(bucket: &str, cluster: &str, file: &Path) {
    let inspect = |verify: bool| {
        let mut command = Command::new(PROGRAM);
        command.args(["inspect", "objects", bucket, cluster]);
        command.args(verify.then_some("--verify"));
        let output = command.output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let sum = text.lines().last().expect("a sum");
        let sum: serde_json::Value = serde_json::from_str(sum).expect("JSON");
        (output.status.code(), sum)
    };
    let (code, sum) = inspect(true);
    assert_eq!(code, Some(0), "{sum}");
    assert_eq!(sum["gaps"], 0, "{sum}");
    assert_eq!(sum["overlaps"], 0, "{sum}");
    assert!(sum["payload_bytes"].as_u64() > Some(0), "{sum}");
    let sound = std::fs::read(file).expect("reads");
    let mut changed = sound.clone();
    // Behind the first block's header: only its checksum tells.
    changed[40] ^= 1;
    std::fs::write(file, &changed).expect("writes");
    assert_eq!(inspect(false).0, Some(0), "the indexes are sound");
    let (code, sum) = inspect(true);
    assert_eq!((code, &sum["unsound"]), (Some(1), &1.into()), "{sum}");
    std::fs::write(file, sound).expect("writes");
}

/// Audits the bucket; gives the exit code and the last line.
fn audit(home: &Home, cluster: &str) -> (Option<i32>, serde_json::Value) {
    let bucket = format!("file://{}", home.path().join("objects").display());
    let mut command = Command::new(PROGRAM);
    command.args(["inspect", "objects", &bucket, cluster, "--audit", "--json"]);
    command
        .arg("--metadata")
        .arg(home.path().join("data/meta.db"));
    let output = command.output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let sum = text.lines().last().map(serde_json::from_str);
    let sum = sum.map_or_else(|| error.into(), |sum| sum.expect("JSON"));
    (output.status.code(), sum)
}

/// The first object's file, and the cluster that it belongs to.
fn first_object(home: &Home) -> (std::path::PathBuf, String) {
    let first = |folder: &Path| {
        let entries = std::fs::read_dir(folder).expect("a folder");
        let mut paths = entries.map(|entry| entry.expect("readable").path());
        // The metadata's mark and backup are no objects of streams.
        let is_object = |path: &std::path::PathBuf| !path.ends_with("meta");
        paths.find(is_object).expect("not empty")
    };
    let cluster = first(&first(&home.path().join("objects")));
    let name = cluster.file_name().expect("named").to_string_lossy();
    (first(&cluster), name.into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bucket_is_audited_beside_a_running_broker_and_without_one() {
    let home = Home::new();
    let running = home.start().await;
    let mut client = running.client().await;
    for number in 0..100 {
        assert_eq!(client.produce("t", 0, numbered(number)).await, Ok(number));
    }
    assert!(running.terminate().await.success());
    let (object, cluster) = first_object(&home);
    let (code, sum) = audit(&home, &cluster);
    assert_eq!((code, &sum["missing"]), (Some(0), &0.into()), "{sum}");
    assert!(sum["referenced"].as_u64() > Some(0), "{sum}");
    assert_eq!(sum["referenced"], sum["stored"], "{sum}");

    let running = home.start().await;
    let (code, beside) = audit(&home, &cluster);
    assert_eq!(code, Some(0), "{beside}");
    assert_eq!(beside["stored_bytes"], sum["stored_bytes"]);
    running.terminate().await;

    let (code, error) = audit(&home, "another-cluster");
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.to_string().contains("not of another-cluster"),
        "{error}"
    );

    let orphan = home.path().join("objects/fedc").join(&cluster);
    std::fs::create_dir_all(&orphan).expect("created");
    let orphan = orphan.join("00000000abcdcdef");
    std::fs::write(&orphan, b"left behind").expect("writes");
    let (code, sum) = audit(&home, &cluster);
    assert_eq!((code, &sum["orphans"]), (Some(3), &1.into()), "{sum}");
    std::fs::remove_file(orphan).expect("removes");

    let sound = std::fs::read(&object).expect("reads");
    std::fs::write(&object, &sound[1..]).expect("writes");
    let (code, sum) = audit(&home, &cluster);
    assert_eq!((code, &sum["wrong_size"]), (Some(2), &1.into()), "{sum}");
    std::fs::remove_file(&object).expect("removes");
    let (code, sum) = audit(&home, &cluster);
    assert_eq!((code, &sum["missing"]), (Some(2), &1.into()), "{sum}");
    std::fs::write(&object, sound).expect("writes");
    assert_eq!(audit(&home, &cluster).0, Some(0));
}

fn outcome(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().expect("it runs");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_in_use_and_a_wrong_configuration_have_their_exit_codes() {
    let home = Home::new();
    let running = home.start().await;
    let mut second = home.command();
    second.args(["--override", "listeners=PLAINTEXT://127.0.0.1:0"]);
    let (code, text) = outcome(second);
    assert_eq!(code, Some(75), "{text}");
    assert!(text.contains("in use by another broker"), "{text}");
    running.terminate().await;

    let mut wrong = home.command();
    wrong.args([
        "--override",
        "num.partitions=many",
        "--override",
        "listeners=localhost",
    ]);
    let (code, text) = outcome(wrong);
    assert_eq!(code, Some(78), "{text}");
    assert!(
        text.contains("num.partitions (--override)") && text.contains("listeners"),
        "{text}"
    );

    for check in [&[][..], &["--check"]] {
        let mut large = home.command();
        large.args(["--override", "memory.max.bytes=256MiB"]);
        large.args(check);
        let (code, text) = outcome(large);
        assert_eq!(code, Some(78), "{text}");
        assert!(
            text.contains("(memory.max.bytes") && text.contains("lower s3.wal.cache.size"),
            "{text}"
        );
    }

    let mut missing = Command::new(PROGRAM);
    missing.args(["broker", "--config", "/nowhere/server.properties"]);
    let (code, text) = outcome(missing);
    assert_eq!(code, Some(78), "{text}");
    assert!(text.contains("/nowhere/server.properties"), "{text}");
}

/// What the process under test takes as its admin token.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Head and body of a GET.
async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    answer
}

/// Metrics are the process's, so this needs a process with one broker.
#[tokio::test(flavor = "multi_thread")]
async fn a_baseline_that_is_set_at_run_time_is_in_the_metrics_at_once() {
    let home = Home::new();
    let admin = free_address();
    let file = home.path().join("server.properties");
    let token = home.path().join("token");
    std::fs::write(&token, TOKEN).expect("writable");
    let text = std::fs::read_to_string(&file).expect("written");
    let with_admin = text.replace(
        "admin.listener=none",
        &format!(
            "admin.listener={admin}\nadmin.token.file={}",
            token.display()
        ),
    );
    std::fs::write(&file, with_admin).expect("writable");
    let broker = home.start().await;
    let text = |text: &'static str| StrBytes::from_static_str(text);
    let config = AlterableConfig::default()
        .with_name(text("s3.network.ingress.baseline.bandwidth"))
        .with_value(Some(text("50000000")));
    let resource = AlterConfigsResource::default()
        .with_resource_type(4)
        .with_resource_name(text("0"))
        .with_configs(vec![config]);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer = broker.client().await.call(1, &request).await;
    assert_eq!(answer.responses[0].error_code, 0, "{answer:?}");
    let metrics = get(admin, "/metrics").await;
    let line = "millrace_network_baseline_bytes_per_second{direction=\"ingress\"} 50000000";
    assert!(metrics.contains(line), "{line} in {metrics}");
    assert!(broker.terminate().await.success());
}

/// Waits for a process to end by itself; its exit code and its last line.
async fn ended(running: &mut Running, home: &Home, within: Duration) -> (Option<i32>, String) {
    let ended = async {
        loop {
            if let Some(status) = running.child.try_wait().expect("our child") {
                return status.code();
            }
            tokio::time::sleep(POLL).await;
        }
    };
    let code = tokio::time::timeout(within, ended).await;
    let log = home.log();
    let last = log.lines().last().unwrap_or_default().to_owned();
    (
        code.unwrap_or_else(|_| panic!("it still runs: {log}")),
        last,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_panics_ends_the_process_within_two_seconds_and_says_why() {
    const AFTER: Duration = Duration::from_secs(2);
    let home = Home::new();
    home.set("test.panic.task=upload@2000");
    let mut running = home.start().await;
    let mut client = running.client().await;
    let acknowledged = Arc::new(AtomicI64::new(0));
    let counting = Arc::clone(&acknowledged);
    let producing = tokio::spawn(async move {
        // Ends when the connection does.
        while let Ok(offset) = client.produce("t", 0, numbered(0)).await {
            counting.store(offset + 1, Ordering::SeqCst);
        }
    });
    let (code, last) = ended(&mut running, &home, AFTER + Duration::from_secs(2)).await;
    let _ = producing.await;
    let reason = "the task upload panicked: a test injected this panic";
    assert_eq!(
        (code, last),
        (Some(79), format!("millrace: exit 79: {reason}"))
    );
    let log = home.log();
    assert!(log.contains("FOR TESTS ONLY"), "{log}");
    assert!(log.contains("task=\"upload\""), "{log}");

    home.set("test.panic.task=telemetry-fold");
    let mut running = Running {
        child: home.spawn(),
        kafka: home.kafka,
    };
    let (code, last) = ended(&mut running, &home, SOON).await;
    assert_eq!(code, Some(79), "{last}");
    assert!(
        last.starts_with("millrace: exit 79: the task telemetry-fold"),
        "{last}"
    );

    home.set("");
    let running = home.start().await;
    let mut client = running.client().await;
    let read = client.fetch("t", 0, 0, Duration::ZERO).await;
    let acknowledged = acknowledged.load(Ordering::SeqCst);
    assert!(acknowledged > 0, "some were acknowledged");
    assert!(read.high_watermark >= acknowledged, "all of them are there");
    assert!(running.terminate().await.success());
}

#[test]
fn a_wrong_command_line_and_a_wrong_task_have_their_exit_codes() {
    let mut unknown = Command::new(PROGRAM);
    unknown.args(["brocker"]);
    let (code, text) = outcome(unknown);
    assert_eq!(code, Some(64), "{text}");
    assert!(
        text.ends_with("millrace: exit 64: the command line is wrong: unrecognized subcommand\n"),
        "{text}"
    );
    let mut help = Command::new(PROGRAM);
    help.arg("--help");
    assert_eq!(outcome(help).0, Some(0));

    let home = Home::new();
    home.set("test.panic.task=uploads");
    let (code, text) = outcome(home.command());
    assert_eq!(code, Some(78), "{text}");
    assert!(
        text.contains("there is no task \"uploads\"; the tasks are"),
        "{text}"
    );
    let last = text.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("millrace: exit 78: test.panic.task"),
        "{text}"
    );
}

/// Moves the metadata to another name, or back.
fn move_metadata(home: &Home, from: &str, to: &str) {
    for suffix in ["", "-wal", "-shm"] {
        let path = |name: &str| home.path().join(format!("data/{name}{suffix}"));
        if path(from).exists() {
            std::fs::rename(path(from), path(to)).expect("moved");
        }
    }
}

/// `millrace adopt` with these options.
fn adopt(home: &Home, options: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("adopt").arg("--config");
    command.arg(home.path().join("server.properties"));
    command.args(options).output().expect("it runs")
}

/// The next start after this once threw away every record that was not uploaded.
#[tokio::test(flavor = "multi_thread")]
async fn lost_metadata_ends_the_start_with_65_and_no_record_is_lost() {
    let home = Home::new();
    let running = home.start().await;
    let mut client = running.client().await;
    for number in 0..100 {
        assert_eq!(client.produce("t", 0, numbered(number)).await, Ok(number));
    }
    let in_use = adopt(&home, &["--dry-run"]);
    assert_eq!(in_use.status.code(), Some(75), "{in_use:?}");
    move_metadata(&home, "meta.db", "away.db");
    running.kill_9();
    for _ in 0..2 {
        let refused = home.command().output().expect("it runs");
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(65), "{text}");
        assert!(
            text.contains("no metadata") && text.contains("millrace recover"),
            "{text}"
        );
    }
    let unsure = adopt(&home, &[]);
    let text = String::from_utf8_lossy(&unsure.stderr).into_owned();
    assert!(
        !unsure.status.success() && text.contains("--dry-run"),
        "{text}"
    );
    let planned = adopt(&home, &["--dry-run"]);
    let text = String::from_utf8_lossy(&planned.stdout).into_owned();
    assert!(planned.status.success(), "{planned:?}");
    assert!(text.contains("Found: data.dir has no metadata"), "{text}");
    assert!(text.contains("Nothing was changed"), "{text}");
    move_metadata(&home, "away.db", "meta.db");
    let running = home.start().await;
    let stored = read_all(&mut running.client().await).await;
    assert_eq!(stored, (0..100).collect::<Vec<i64>>());
    assert!(running.terminate().await.success());
    let agreed = adopt(&home, &["--yes"]);
    assert!(agreed.status.success(), "{agreed:?}");
    assert!(
        String::from_utf8_lossy(&agreed.stdout).contains("Nothing to adopt"),
        "{agreed:?}"
    );
}
