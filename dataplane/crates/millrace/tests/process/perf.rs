//! `millrace perf` against a real broker.

use std::{net::TcpListener, path::Path, process::Stdio, time::Duration};

use rcgen::{CertificateParams, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use super::{Home, PROGRAM, Running, SOON};

/// A run to its end: its exit code, and what it says on both outputs.
async fn perf(broker: &Running, arguments: &str) -> (Option<i32>, String, String) {
    let run = command(broker, arguments).output();
    let run = tokio::time::timeout(SOON, run).await.expect("it ends soon");
    let output = run.expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn command(broker: &Running, arguments: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    let address = broker.kafka.to_string();
    command
        .arg("perf")
        .args(arguments.split_ascii_whitespace())
        .args(["--bootstrap-server", &address])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// The lines of `--progress json`; the last one is the report.
fn lines(stdout: &str) -> Vec<Value> {
    let line = |line| serde_json::from_str(line).expect("JSON");
    stdout.lines().map(line).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("written")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_performance_test_counts_exactly_what_the_broker_has() {
    let home = Home::new();
    let broker = home.start().await;
    let (json, page) = (home.path().join("r.json"), home.path().join("r.html"));
    let arguments = format!(
        "produce --topic counted --partitions 3 --num-records 3000 --record-size 200 \
         --throughput 4000 --producers 2 --verify --progress json --json {} --report {}",
        json.display(),
        page.display()
    );
    let (code, stdout, stderr) = perf(&broker, &arguments).await;
    assert_eq!(code, Some(0), "{stderr}");
    let report = lines(&stdout).pop().expect("a last line");
    assert_eq!(report["kind"], "report");
    assert_eq!(report["produced"]["records"], 3_000);
    assert_eq!(report["produced"]["bytes"], 600_000);
    assert_eq!(report["verification"]["checked"], 3_000);
    assert_eq!(report["verification"]["missing"], 0);
    assert_eq!(report["ended_by"], "records");
    let rate = report["produced"]["records_per_second"]
        .as_f64()
        .expect("a rate");
    assert!((2_000.0..=4_400.0).contains(&rate), "{rate}");
    let p99 = report["produced"]["latency_ms"]["p99"].as_f64();
    assert!(p99.expect("latencies") > 0.0);
    let file: Value = serde_json::from_str(&read(&json)).expect("JSON");
    assert_eq!(file["produced"], report["produced"]);
    let page = read(&page);
    assert!(page.contains("<svg") && page.contains("prefers-color-scheme: dark"));
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));

    let (code, stdout, stderr) = perf(&broker, "consume --topic counted --progress none").await;
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.contains("consumed   3,000 records, 0.6 MiB"),
        "{stdout}"
    );
    let arguments = "consume --topic counted --consumers 2 --num-records 3000 --progress json";
    let (code, stdout, stderr) = perf(&broker, arguments).await;
    assert_eq!(code, Some(0), "{stderr}");
    let report = lines(&stdout).pop().expect("a last line");
    assert_eq!(report["consumed"]["records"], 3_000);
    assert_eq!(report["consumed"]["latency_ms"], Value::Null);
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_listener_is_measured_as_kafkas_tools_reach_it() {
    let home = Home::new();
    let folder = home.path().display();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed").pem();
    let write = |name: &str, text: &str| {
        std::fs::write(home.path().join(name), text).expect("writable");
    };
    write("ca.pem", &certificate);
    write(
        "server.pem",
        &format!("{certificate}{}", key.serialize_pem()),
    );
    let protected = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = protected.local_addr().expect("bound").port();
    drop(protected);
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule required";
    for line in [
        format!(
            "listeners=PLAINTEXT://{},SASL_SSL://127.0.0.1:{port}",
            home.kafka
        ),
        format!(
            "advertised.listeners=PLAINTEXT://{},SASL_SSL://localhost:{port}",
            home.kafka
        ),
        format!("ssl.keystore.location={folder}/server.pem"),
        "sasl.enabled.mechanisms=PLAIN".to_owned(),
        format!("listener.name.sasl_ssl.plain.sasl.jaas.config={module} user_a=\"b; c\";"),
    ] {
        home.set(&line);
    }
    let broker = home.start().await;
    let run = |password: &str, flag: &str| {
        let text = format!(
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.type=PEM\n\
             ssl.truststore.location={folder}/ca.pem\n\
             sasl.jaas.config={module} username=\"a\" password=\"{password}\";\n"
        );
        write("client.properties", &text);
        let mut command = Command::new(PROGRAM);
        let arguments = "perf produce --topic protected --num-records 10 --progress none";
        command
            .args(arguments.split(' '))
            .args(["--bootstrap-server", &format!("localhost:{port}")])
            .args([flag, &format!("{folder}/client.properties")])
            .stdin(Stdio::null())
            .kill_on_drop(true);
        async move {
            let output = tokio::time::timeout(SOON, command.output()).await;
            let output = output.expect("it ends soon").expect("it starts");
            let stderr = String::from_utf8(output.stderr).expect("text");
            (output.status.code(), stderr)
        }
    };
    for flag in ["--command-config", "--producer.config"] {
        let (code, stderr) = run("b; c", flag).await;
        assert_eq!(code, Some(0), "{stderr}");
    }
    let (code, stderr) = run("wrong", "--command-config").await;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("Authentication failed"), "{stderr}");
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn latencies_and_a_catch_up_are_measured_from_end_to_end() {
    let home = Home::new();
    let broker = home.start().await;
    let arguments = "end-to-end --topic through --partitions 2 --consumers 2 --throughput 500 \
                     --duration 1 --warmup 1 --linger-ms 0 --verify --progress json";
    let (code, stdout, stderr) = perf(&broker, arguments).await;
    assert_eq!(code, Some(0), "{stderr}");
    let lines_seen = lines(&stdout);
    let phases: Vec<_> = lines_seen
        .iter()
        .filter_map(|line| line["phase"].as_str())
        .collect();
    assert!(
        phases.contains(&"warmup") && phases.contains(&"test"),
        "{phases:?}"
    );
    let report = lines_seen.last().expect("a last line");
    let (produced, consumed) = (
        &report["produced"]["records"],
        &report["consumed"]["records"],
    );
    assert_eq!(produced, consumed);
    assert!(
        (250..=500).contains(&produced.as_u64().expect("a count")),
        "{produced}"
    );
    let checked = report["verification"]["checked"].as_u64();
    assert!(
        checked > produced.as_u64(),
        "the warm-up is checked as well"
    );
    let p50 = |part: &str| {
        report[part]["latency_ms"]["p50"]
            .as_f64()
            .expect("latencies")
    };
    assert!(p50("end_to_end") > 0.0 && p50("produced") > 0.0);

    let arguments = "catch-up --topic behind --throughput 2000 --duration 8 \
                     --backlog-duration 1 --verify --progress json";
    let (code, stdout, stderr) = perf(&broker, arguments).await;
    assert_eq!(code, Some(0), "{stderr}");
    let report = lines(&stdout).pop().expect("a last line");
    assert_eq!(report["ended_by"], "caught_up", "{report}");
    assert_eq!(report["catch_up"]["complete"], true);
    let backlog = report["catch_up"]["backlog_records"]
        .as_u64()
        .expect("a count");
    assert!((1_500..=2_500).contains(&backlog), "{backlog}");
    assert_eq!(report["verification"]["missing"], 0);
    assert_eq!(report["produced"]["records"], report["consumed"]["records"]);

    let arguments = "mixed --topic behind --throughput 500 --duration 1 --progress json";
    let (code, stdout, stderr) = perf(&broker, arguments).await;
    assert_eq!(code, Some(0), "{stderr}");
    let report = lines(&stdout).pop().expect("a last line");
    let count = |part: &str| report[part]["records"].as_u64().expect("a count");
    assert!(count("consumed") > count("produced") + backlog);
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_performance_test_with_a_report() {
    let home = Home::new();
    let broker = home.start().await;
    let arguments = "produce --topic long --throughput 100 --duration 600 --progress json";
    let mut run = command(&broker, arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let stdout = run.stdout.take().expect("piped");
    let mut stdout = BufReader::new(stdout).lines();
    let first = tokio::time::timeout(SOON, stdout.next_line()).await;
    let first = first.expect("soon").expect("readable").expect("a line");
    assert!(first.contains("\"progress\""), "{first}");
    let pid = run
        .id()
        .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    kill_process(pid.expect("it runs"), Signal::TERM).expect("our child");
    let mut last = first;
    while let Some(line) = stdout.next_line().await.expect("readable") {
        last = line;
    }
    let report: Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(
        (&report["kind"], &report["ended_by"]),
        (&"report".into(), &"signal".into())
    );
    assert!(report["produced"]["records"].as_u64() > Some(0));
    let ended = tokio::time::timeout(Duration::from_secs(10), run.wait()).await;
    assert!(ended.expect("soon").expect("our child").success());
    assert!(broker.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_performance_test_that_cannot_be_made_says_why() {
    let home = Home::new();
    let broker = home.start().await;
    for (arguments, exit, words) in [
        ("produce --topic t", 64, "--num-records or --duration"),
        (
            "produce --topic t --num-records 1 --throughput 0",
            64,
            "-1 for no limit",
        ),
        (
            "produce --topic t --num-records many",
            64,
            "invalid value 'many'",
        ),
        ("consume --topic nowhere", 1, "UNKNOWN_TOPIC_OR_PARTITION"),
        (
            "consume --topic t --json /no/such/folder/f",
            1,
            "/no/such/folder/f",
        ),
        (
            "produce --topic t --num-records 1 --batch-size 99999999999",
            64,
            "batch_size",
        ),
    ] {
        let (code, _, stderr) = perf(&broker, arguments).await;
        assert_eq!(code, Some(exit), "{arguments}: {stderr}");
        assert!(stderr.contains(words), "{arguments}: {stderr}");
    }
    assert!(broker.terminate().await.success());
}

/// The producer's memory has room for a few records, so that it stands still with the broker. The records
/// that are due meanwhile wait, and it counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_stands_still_delays_all_records_that_are_due() {
    const STOP: Duration = Duration::from_millis(600);
    let home = Home::new();
    let broker = home.start().await;
    let arguments = "produce --topic still --throughput 500 --duration 3 --progress json \
                     --batch-size 4096 --buffer-memory 16384";
    let mut run = command(&broker, arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let stdout = run.stdout.take().expect("piped");
    let mut stdout = BufReader::new(stdout).lines();
    let mut last = stdout.next_line().await.expect("readable").expect("a line");
    while !last.contains("\"elapsed_seconds\":1") {
        last = stdout.next_line().await.expect("readable").expect("a line");
    }
    let pid = i32::try_from(broker.child.id())
        .ok()
        .and_then(Pid::from_raw);
    let pid = pid.expect("it runs");
    kill_process(pid, Signal::STOP).expect("our child");
    tokio::time::sleep(STOP).await;
    kill_process(pid, Signal::CONT).expect("our child");
    while let Some(line) = stdout.next_line().await.expect("readable") {
        last = line;
    }
    let report: Value = serde_json::from_str(&last).expect("JSON");
    // A fifth of the records were due while the broker stood still: half of them waited 300 ms.
    let p90 = report["produced"]["latency_ms"]["p90"]
        .as_f64()
        .expect("latencies");
    assert!(p90 > 200.0, "{report}");
    assert!(broker.terminate().await.success());
}
