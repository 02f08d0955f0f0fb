//! The S3 server and the broker.

use std::{net::SocketAddr, time::Duration};

use millrace_bench::{
    affinity::{CompletionsAtRequester, pin, processors},
    broker::{Home, Running, Settings, free_address},
    machine::pause,
    s3_server::{S3Server, bucket_uri, program},
    shaped_link::ShapedLink,
};
use millrace_time::{SharedClock, SystemClock};
use tempfile::TempDir;

use crate::arguments::Options;

/// The log is larger than what is ever not uploaded.
const WAL_BYTES: u64 = 4 << 30;
const WAL_DEPTH: u32 = 32;
/// An upload holds half a MiB of each of a thousand partitions, which is a data block; the article's
/// broker had three times as much of each, and a log cache of four uploads, too.
const LINES: &str = "cluster.id=bench\ns3.wal.cache.size=2GiB\ns3.wal.upload.threshold=512MiB\n\
                     offsets.topic.num.partitions=8\nauto.create.topics.enable=false\n";
/// Compaction is off: it reads objects too.
const QUIET_LINES: &str = "s3.compaction.interval.ms=0\n";

/// A broker that is asked to stop and does not is killed after this.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
const UPLOAD_PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// Both, in a folder of their own.
#[derive(Debug)]
pub(crate) struct Stand {
    pub(crate) home: Home,
    pub(crate) server: S3Server,
    pub(crate) bucket_uri: String,
    /// The server's folder; it is removed with this.
    _bucket: TempDir,
    running: Option<Running>,
    /// Counted before anything is pinned.
    processors: usize,
    /// While the broker has a processor of its own.
    completions: Option<CompletionsAtRequester>,
    /// Between the broker and everybody else, in some profiles.
    link: Option<ShapedLink>,
    /// Further lines of the configuration, from the command line: they come last.
    lines: String,
}

impl Stand {
    /// Starts the S3 server over an empty folder.
    pub(crate) fn create(options: &Options) -> Result<Self, String> {
        let program = program(options.s3_server.as_deref()).map_err(|error| error.to_string())?;
        let address = free_address()?;
        let bucket_uri = bucket_uri(address);
        let settings = settings(&bucket_uri, "", &options.broker_lines);
        let home = Home::create(&options.program, &options.work, &settings)?;
        let parent = options.bucket.as_deref().unwrap_or(home.folder());
        let parent = tempfile::Builder::new().prefix("bucket").tempdir_in(parent);
        let bucket = parent.map_err(|error| format!("the bucket's folder: {error}"))?;
        let folder = bucket.path().join("objects");
        let server = S3Server::start(&program, address, &folder);
        Ok(Self {
            home,
            server: server.map_err(|error| error.to_string())?,
            bucket_uri,
            _bucket: bucket,
            running: None,
            processors: processors(),
            completions: None,
            link: None,
            lines: options.broker_lines.clone(),
        })
    }

    /// Starts the broker with these further lines of configuration, in place of the one that runs:
    /// its caches are empty. Waits until everything is uploaded.
    pub(crate) fn serve(&mut self, lines: &str) -> Result<(), String> {
        self.link = None;
        self.start(&self.bucket_uri.clone(), lines)
    }

    /// The same behind a link that carries `bytes_per_s` in each direction.
    pub(crate) fn serve_linked(&mut self, bytes_per_s: u64, lines: &str) -> Result<(), String> {
        let (broker, bucket) = (self.home.address(), self.server.address());
        let link = ShapedLink::start(bytes_per_s, broker, bucket);
        let link = link.map_err(|error| format!("the link: {error}"))?;
        let uri = bucket_uri(link.for_broker());
        let former = self.link.replace(link);
        self.start(&uri, lines)?;
        drop(former);
        Ok(())
    }

    /// Where clients find the broker.
    pub(crate) fn address(&self) -> SocketAddr {
        let link = self.link.as_ref();
        link.map_or_else(|| self.home.address(), ShapedLink::for_clients)
    }

    /// Gives the broker the first processor, and all others the rest; or everybody all of them. The kernel's work for the
    /// broker's log goes with it.
    pub(crate) fn pin(&mut self, is_apart: bool) -> Result<(), String> {
        let all: Vec<usize> = (0..self.processors).collect();
        let (first, rest) = match is_apart {
            true if all.len() < 2 => {
                return Err("the profile pinned needs two processors".to_owned());
            }
            true => all.split_at(1),
            false => (&all[..], &all[..]),
        };
        self.completions = None;
        if is_apart {
            match CompletionsAtRequester::of_disk_at(self.home.folder()) {
                Ok(completions) => self.completions = Some(completions),
                Err(error) => eprintln!(
                    "the kernel may complete the log's writes on the clients' processors: {error}"
                ),
            }
        }
        pin(&self.broker_pid()?, first)?;
        pin(&self.server.pid().to_string(), rest)?;
        pin("self", rest)
    }

    fn start(&mut self, bucket_uri: &str, lines: &str) -> Result<(), String> {
        if let Some(running) = self.running.take() {
            running.stop_or_kill(STOP_PATIENCE)?;
        }
        let settings = settings(bucket_uri, lines, &self.lines);
        self.home.configure(&settings)?;
        self.running = Some(self.home.start_and_wait()?);
        self.until_uploaded()
    }

    /// Waits until what was written is in the bucket, but for what is too little for an upload.
    pub(crate) fn until_uploaded(&mut self) -> Result<(), String> {
        let clock: SharedClock = SystemClock::shared();
        loop {
            let metrics = self.home.metrics()?;
            let pending = metrics.sum("millrace_upload_pending_bytes", "");
            if pending == Some(0.0) {
                return Ok(());
            }
            if clock.now() > UPLOAD_PATIENCE {
                return Err(format!("{pending:?} bytes are not uploaded"));
            }
            self.check()?;
            pause(POLL);
        }
    }

    /// The broker runs.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let log = self.home.log();
        let running = self.running.as_mut().ok_or("no broker was started")?;
        match running.ended() {
            None => Ok(()),
            Some(ended) => Err(format!("{ended}; {} says why", log.display())),
        }
    }

    /// The broker's process id.
    pub(crate) fn broker_pid(&self) -> Result<String, String> {
        let running = self.running.as_ref().ok_or("no broker was started")?;
        Ok(running.pid().to_string())
    }

    /// Ends both, and removes what they left.
    pub(crate) fn remove(self) {
        let Self {
            home,
            server,
            running,
            ..
        } = self;
        drop(running);
        drop(server);
        home.remove();
    }
}

fn settings(bucket_uri: &str, lines: &str, last: &str) -> Settings {
    Settings {
        wal_bytes: WAL_BYTES,
        io_depth: WAL_DEPTH,
        bucket: Some(bucket_uri.to_owned()),
        lines: format!("{LINES}{QUIET_LINES}{lines}{last}"),
    }
}
