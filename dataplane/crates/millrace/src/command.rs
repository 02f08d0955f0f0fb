//! The command line.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use millrace_perf::PerfCommand;

/// Kafka on object storage.
#[derive(Debug, Parser)]
#[command(name = "millrace", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a broker until SIGTERM or SIGINT, which drain and stop it.
    Broker(BrokerOptions),
    /// Makes metadata, write-ahead log and bucket belong together where a broker refuses to start with
    /// them, and prints what that loses. Where the metadata is lost, `recover` loses less.
    Adopt(AdoptOptions),
    /// Rebuilds a broker's metadata from its backup in the bucket. The broker must not run.
    Recover(RecoverOptions),
    /// Shows what is stored. Reads only; the broker should not be running.
    #[command(subcommand)]
    Inspect(Target),
    /// Measures a Kafka cluster: producing, consuming, end-to-end latency, catch-up.
    #[command(subcommand)]
    Perf(PerfCommand),
}

/// Options of `millrace broker`.
#[derive(Debug, Args)]
pub(crate) struct BrokerOptions {
    /// The server.properties file. Without one, every setting has its default.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Sets one property over what the file says. May be given many times.
    #[arg(long = "override", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
    /// Checks the configuration, prints it and exits.
    #[arg(long)]
    pub(crate) check: bool,
    /// How log lines are written to standard error.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

/// Which broker a command is for. Its configuration names the storage.
#[derive(Debug, Args)]
pub(crate) struct BrokerFile {
    /// The broker's server.properties file.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Sets one property over what the file says. May be given many times.
    #[arg(long = "override", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
}

/// Options of `millrace adopt`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("consent").required(true).args(["dry_run", "yes"])))]
pub(crate) struct AdoptOptions {
    #[command(flatten)]
    pub(crate) broker: BrokerFile,
    /// Prints what would be lost and changes nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Prints what is lost and goes ahead.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Options of `millrace recover`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("recovery").required(true).args(["dry_run", "yes"])))]
pub(crate) struct RecoverOptions {
    #[command(flatten)]
    pub(crate) broker: BrokerFile,
    /// Prints what would come back, and what is missing, and changes nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Prints it and goes ahead. Metadata that is there is moved aside.
    #[arg(long)]
    pub(crate) yes: bool,
    /// Prints the report as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Restores an earlier moment, such as 2026-11-22T13:00:00Z. The write-ahead log is emptied.
    #[arg(long, value_name = "RFC3339", value_parser = moment)]
    pub(crate) at: Option<i64>,
}

fn moment(text: &str) -> Result<i64, String> {
    millrace_broker::recover::parse_moment(text)
        .ok_or_else(|| "write a moment such as 2026-11-22T13:00:00Z".to_owned())
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text for a person.
    Text,
    /// One JSON object per line for a machine.
    Json,
}

/// What `millrace inspect` shows.
#[derive(Debug, Subcommand)]
pub(crate) enum Target {
    /// Headers and records of a write-ahead log. Reads every byte that counts and checks it; exits with
    /// 1 where one is not sound.
    Wal {
        /// The file or block device.
        path: PathBuf,
    },
    /// All objects of a cluster, and what they hold together. Exits with 1 where one is not sound. With
    /// --audit, whether they are those that the metadata knows: exits with 2 where one is missing, with
    /// 3 where there are only some that nobody knows.
    Objects {
        /// The bucket, as in s3.data.buckets.
        bucket: String,
        /// The cluster's id.
        cluster: String,
        /// Reads every byte and checks it; else only the indexes are read.
        #[arg(long)]
        verify: bool,
        /// Compares the bucket with the metadata; the broker may be running.
        #[arg(long, requires = "metadata", conflicts_with = "verify")]
        audit: bool,
        /// The broker's metadata: meta.db in its data.dir.
        #[arg(long, value_name = "FILE", requires = "audit")]
        metadata: Option<PathBuf>,
        /// Tells the outcome of --audit as JSON lines.
        #[arg(long, requires = "audit")]
        json: bool,
    },
    /// The blocks of one object, each checked against its checksum.
    Object {
        /// The bucket, as in s3.data.buckets.
        bucket: String,
        /// The cluster's id.
        cluster: String,
        /// The object's number, as the metadata has it.
        object: u64,
    },
    /// What the objects of a cluster hold of one stream, each block checked. Exits with 1 where one is
    /// corrupt. Reads the index of every object of the cluster.
    Stream {
        /// The bucket, as in s3.data.buckets.
        bucket: String,
        /// The cluster's id.
        cluster: String,
        /// The stream's number, as logs and /v1/status show it.
        stream: u64,
    },
}
