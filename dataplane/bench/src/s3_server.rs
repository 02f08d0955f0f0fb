//! A real S3 server on this machine: versitygw over a folder, built from the Go module proxy.

use std::{
    fs::{self, File},
    io,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use crate::{machine::pause, maven::tools_folder};

/// The version that the drills were written against.
const MODULE: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";

/// The bucket of each server.
pub const BUCKET: &str = "millrace";

const ACCESS_KEY: &str = "drill";
const SECRET_KEY: &str = "drill-secret";

/// A server that does not listen by then has failed.
const START_POLLS_MAX: u32 = 200;
const START_POLL: Duration = Duration::from_millis(50);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum S3ServerError {
    /// Go could not be started.
    #[error("go: {0}; install Go 1.24 or newer, or name a versitygw program")]
    Go(#[source] io::Error),
    /// Go said why on standard error.
    #[error("go install {MODULE}: {0}")]
    Build(ExitStatus),
    /// A program or a folder could not be used.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It ended, or does not listen.
    #[error("the S3 server does not answer; {0} says why")]
    Silent(PathBuf),
}

/// The server's program: `named`, or one that is built once, which takes a minute or two.
///
/// # Errors
/// Go is missing or fails.
pub fn program(named: Option<&Path>) -> Result<PathBuf, S3ServerError> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    let folder = tools_folder().join("bin");
    let program = folder.join("versitygw");
    if program.exists() {
        return Ok(program);
    }
    eprintln!("building {MODULE} …");
    let io = |source| S3ServerError::Io {
        path: folder.clone(),
        source,
    };
    fs::create_dir_all(&folder).map_err(io)?;
    let folder = folder.canonicalize().map_err(io)?;
    let status = Command::new("go")
        .args(["install", MODULE])
        .env("GOBIN", &folder)
        .env("GOFLAGS", "-buildvcs=false")
        .status()
        .map_err(S3ServerError::Go)?;
    if !status.success() {
        return Err(S3ServerError::Build(status));
    }
    Ok(program)
}

/// A running server; killed when this is dropped.
#[derive(Debug)]
pub struct S3Server {
    child: Child,
    address: SocketAddr,
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl S3Server {
    /// Starts the server over `folder`, in which it creates [`BUCKET`], and waits until it listens at
    /// `address`. Its output goes to a file beside the folder.
    ///
    /// # Errors
    /// The program or the folder cannot be used, or the server does not listen within 10 s.
    pub fn start(
        program: &Path,
        address: SocketAddr,
        folder: &Path,
    ) -> Result<Self, S3ServerError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| S3ServerError::Io { path, source }
        };
        fs::create_dir_all(folder.join(BUCKET)).map_err(failed(folder))?;
        let said = folder.with_extension("log");
        let log = File::create(&said).map_err(failed(&said))?;
        let child = Command::new(program)
            .args([
                "--port",
                &address.to_string(),
                "--region",
                "us-east-1",
                // As S3 does; without it every request costs a connection.
                "--keep-alive",
                // No line for each request.
                "--quiet",
                "posix",
            ])
            .arg(folder)
            .env("ROOT_ACCESS_KEY", ACCESS_KEY)
            .env("ROOT_SECRET_KEY", SECRET_KEY)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failed(&said))?)
            .stderr(log)
            .spawn()
            .map_err(failed(program))?;
        let mut server = Self { child, address };
        for _ in 0..START_POLLS_MAX {
            if TcpStream::connect(address).is_ok() {
                return Ok(server);
            }
            if server.child.try_wait().ok().flatten().is_some() {
                break;
            }
            pause(START_POLL);
        }
        Err(S3ServerError::Silent(said))
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The value of `s3.data.buckets` for the [`BUCKET`] of a server that is reached at `address`.
#[must_use]
pub fn bucket_uri(address: SocketAddr) -> String {
    format!(
        "0@s3://{BUCKET}?region=us-east-1&endpoint=http://{address}&pathStyle=true\
         &accessKey={ACCESS_KEY}&secretKey={SECRET_KEY}"
    )
}
