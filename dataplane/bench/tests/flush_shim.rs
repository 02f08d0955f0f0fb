//! The flush shim in a real process: each flush is counted, and is as slow as it is told to be.
#![cfg(target_os = "linux")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use millrace_bench::flush_shim::{Counts, build};
use serde_json::Value;

/// A folder of a test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // There may be one of an earlier run.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Appends and flushes `count` blocks under the shim; what the program and the shim say.
fn flush(name: &str, block: u64, count: u64, slowness: &[(&str, &str)]) -> (Value, Counts) {
    let folder = folder(name);
    let report = folder.join("report");
    let output = Command::new(env!("CARGO_BIN_EXE_bench-write"))
        .args(["run", "flush", "--file"])
        .arg(folder.join("flushed"))
        .args(["--block", &block.to_string(), "--count", &count.to_string()])
        .env("LD_PRELOAD", build(&folder).expect("compiles"))
        .env("SHIM_REPORT", &report)
        .envs(slowness.iter().copied())
        .output()
        .expect("starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let shown = serde_json::from_slice(&output.stdout).expect("JSON");
    let counts = Counts::read(&report).expect("the shim was loaded");
    fs::remove_dir_all(&folder).expect("goes");
    (shown, counts)
}

fn number(shown: &Value, key: &str) -> f64 {
    shown[key].as_f64().expect("a number")
}

#[test]
fn every_flush_is_counted_and_takes_its_time() {
    let (shown, counts) = flush("latency", 4_096, 20, &[("SHIM_FLUSH_MS", "30")]);
    assert_eq!(counts.flushes, 20);
    assert_eq!(counts.bytes, 20 * 4_096);
    assert!(number(&shown, "p50_ms") >= 30.0, "{shown}");
    assert!(number(&shown, "seconds") >= 0.6, "{shown}");
}

#[test]
fn without_figures_nothing_is_delayed() {
    let (_, counts) = flush("plain", 4_096, 5, &[]);
    assert_eq!(counts.flushes, 5);
    assert_eq!(counts.delayed_ns, 0);
}

#[test]
fn operations_and_bytes_are_capped() {
    // Each flush but the first waits for the one before.
    let (shown, _) = flush("operations", 4_096, 21, &[("SHIM_IOPS", "100")]);
    assert!(number(&shown, "seconds") >= 0.2, "{shown}");
    // A mebibyte is four operations.
    let (shown, counts) = flush("large", 1 << 20, 6, &[("SHIM_IOPS", "100")]);
    assert!(number(&shown, "seconds") >= 0.2, "{shown}");
    assert_eq!(counts.bytes, 6 << 20);
    let (shown, _) = flush("bytes", 1 << 20, 6, &[("SHIM_BANDWIDTH", "26214400")]);
    assert!(number(&shown, "seconds") >= 0.2, "{shown}");
}

/// Changes and flushes a mapped file ten times. Rust would need unsafe code for it.
const MAPPED: &str = r#"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **words) {
    int fd = open(words[count - 1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0) return 1;
    char *bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) return 1;
    for (int n = 0; n < 10; n++) {
        bytes[n] = 1;
        if (msync(bytes, 4096, MS_SYNC) != 0) return 1;
    }
    return 0;
}
"#;

/// Runs [`MAPPED`] under the shim, each flush 30 ms; what the shim says.
fn flush_mapped(name: &str, free: &str) -> Counts {
    let folder = folder(name);
    let (source, program) = (folder.join("mapped.c"), folder.join("mapped"));
    fs::write(&source, MAPPED).expect("written");
    let compiled = Command::new("cc")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(compiled.expect("starts").success());
    let report = folder.join("report");
    let status = Command::new(&program)
        .arg(folder.join("flushed"))
        .env("LD_PRELOAD", build(&folder).expect("compiles"))
        .env("SHIM_REPORT", &report)
        .env("SHIM_FLUSH_MS", "30")
        .env("SHIM_FREE_MSYNC", free)
        .status();
    assert!(status.expect("starts").success());
    let counts = Counts::read(&report).expect("the shim was loaded");
    fs::remove_dir_all(&folder).expect("goes");
    counts
}

#[test]
fn a_mapped_file_is_flushed_as_slowly_unless_that_is_free() {
    // What the disk itself takes is not added.
    let slow = flush_mapped("mapped", "0");
    assert_eq!(slow.flushes, 10);
    assert!(slow.delayed_ns > 0, "{slow:?}");
    let free = flush_mapped("mapped-free", "1");
    assert_eq!((free.flushes, free.delayed_ns), (10, 0));
}

#[test]
fn a_figure_that_is_no_number_ends_the_program() {
    let folder = folder("wrong");
    let mut program = Command::new(env!("CARGO_BIN_EXE_bench-write"));
    program.env("LD_PRELOAD", build(&folder).expect("compiles"));
    let output = program
        .env("SHIM_FLUSH_MS", "5ms")
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(70));
    assert!(String::from_utf8_lossy(&output.stderr).contains("SHIM_FLUSH_MS"));
}
