//! `s3.wal.path`: the location of the write-ahead log, and the limits of its device.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use millrace_ec2::VolumeId;
use millrace_wal::device::Shape;
use url::Url;

/// How a write reaches the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalBackend {
    /// `io_uring` where the kernel allows it, else threads.
    Auto,
    /// `io_uring` or nothing.
    IoUring,
    /// A pool of threads.
    Threads,
}

/// How another broker of the cluster makes this one stop acknowledging, before it takes the log over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalFence {
    /// A file beside the log: brokers on one machine. What a log in a file has where nothing is said.
    Page,
    /// NVMe reservations on the log's device, which is attached to all brokers of a zone: an io2 volume with Multi-Attach.
    Reservation,
    /// Moving the EBS volume, which the log has for itself, to the broker that takes the log over.
    Detach,
}

impl WalFence {
    fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Reservation => "reservation",
            Self::Detach => "detach",
        }
    }

    /// Whether only brokers of the same zone can take the log over: a volume cannot be attached in another one.
    #[must_use]
    pub fn is_zonal(self) -> bool {
        matches!(self, Self::Reservation | Self::Detach)
    }
}

/// `0@file:///path?capacity=…&iodepth=…&iops=…&bandwidth=…&backend=…&durable=…&fence=…&volume=…`, the form that users
/// of Kafka on S3 know. The path is a file, created with its capacity, or a block device.
///
/// `fence` is `page`, `reservation` or `detach`: see [`WalFence`]. With `volume`, the id of an EBS volume, the device is found
/// by that, and the path is not used: the device of a volume has another name on each instance.
///
/// `shape_write_ms`, `shape_iops` and `shape_bandwidth` (bytes per second) make the device as slow
/// as a cloud volume, for measurements on a faster disk. `iops` and `bandwidth` pace the log below
/// what the volume grants; the shape is the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalUri {
    /// The file or the device.
    pub path: PathBuf,
    /// Bytes of the ring. For a block device 0 takes all of it.
    pub capacity_bytes: u64,
    /// Writes under way at once.
    pub io_depth: u32,
    /// Writes per second that the volume grants; `None` does not pace.
    pub iops: Option<u32>,
    /// Bytes per second that the volume grants; `None` does not pace.
    pub bandwidth_bytes: Option<u64>,
    /// How a write reaches the device.
    pub backend: WalBackend,
    /// True where the device's completion already means durable; has no effect on a file.
    pub durable_completion: bool,
    /// How the log is fenced; `None` where nothing is said.
    pub fence: Option<WalFence>,
    /// The EBS volume that the log is on.
    pub volume: Option<VolumeId>,
    /// For measurements: how slow the device is made.
    pub shape: Option<Shape>,
}

/// A text does not name a write-ahead log. The text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWalUri {
    /// Not a `file://` URI with an absolute path.
    #[error("it is not of the form 0@file:///path?capacity=2147483648")]
    Form,
    /// A parameter that does not exist.
    #[error(
        "unknown parameter {0:?}; known are capacity, iodepth, iops, bandwidth, backend, durable, fence, volume; \
         for measurements shape_write_ms, shape_iops, shape_bandwidth"
    )]
    Parameter(String),
    /// A parameter's value.
    #[error("the parameter {name} must be {expected}")]
    Value {
        /// The parameter.
        name: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// Nobody could detach the volume without its id.
    #[error(
        "fence=detach needs the id of the EBS volume that the log is on: add &volume=vol-0123456789abcdef0"
    )]
    NoVolume,
    /// A file beside a log on a volume is not on the volume.
    #[error(
        "fence=page is for brokers of one machine, and a volume may be attached to others: write fence=reservation for an io2 \
         volume with Multi-Attach, or fence=detach for any other volume"
    )]
    PageOfVolume,
}

impl WalUri {
    /// Capacity where none is given, in bytes: the known default of such logs.
    pub const CAPACITY_DEFAULT_BYTES: u64 = 2 << 30;
    /// The smallest ring that holds a few of the largest requests.
    pub const CAPACITY_MIN_BYTES: u64 = 16 << 20;
    /// Writes under way at once where nothing is said.
    pub const IO_DEPTH_DEFAULT: u32 = 8;
}

impl FromStr for WalUri {
    type Err = InvalidWalUri;

    fn from_str(text: &str) -> Result<Self, InvalidWalUri> {
        let text = text.strip_prefix("0@").unwrap_or(text);
        let url = Url::parse(text).map_err(|_| InvalidWalUri::Form)?;
        if url.scheme() != "file" {
            return Err(InvalidWalUri::Form);
        }
        let mut wal = Self {
            path: url.to_file_path().map_err(|()| InvalidWalUri::Form)?,
            capacity_bytes: Self::CAPACITY_DEFAULT_BYTES,
            io_depth: Self::IO_DEPTH_DEFAULT,
            iops: None,
            bandwidth_bytes: None,
            backend: WalBackend::Auto,
            durable_completion: false,
            fence: None,
            volume: None,
            shape: None,
        };
        for (name, value) in url.query_pairs() {
            wal.set(&name, &value)?;
        }
        match (wal.fence, &wal.volume) {
            (Some(WalFence::Detach), None) => Err(InvalidWalUri::NoVolume),
            (Some(WalFence::Page), Some(_)) => Err(InvalidWalUri::PageOfVolume),
            _ => Ok(wal),
        }
    }
}

impl fmt::Display for WalUri {
    /// The location and how it is written, for another broker that takes the log over. What holds this one back is its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = Url::from_file_path(&self.path);
        let url = url.as_ref().map_or("file:///", Url::as_str);
        let (capacity, depth) = (self.capacity_bytes, self.io_depth);
        let backend = match self.backend {
            WalBackend::Auto => "auto",
            WalBackend::IoUring => "io_uring",
            WalBackend::Threads => "threads",
        };
        let durable = self.durable_completion;
        write!(
            f,
            "0@{url}?capacity={capacity}&iodepth={depth}&backend={backend}&durable={durable}"
        )?;
        if let Some(fence) = self.fence {
            write!(f, "&fence={}", fence.name())?;
        }
        match &self.volume {
            Some(volume) => write!(f, "&volume={volume}"),
            None => Ok(()),
        }
    }
}

impl WalUri {
    fn set(&mut self, name: &str, value: &str) -> Result<(), InvalidWalUri> {
        match name {
            "capacity" => {
                let legal = |&n: &u64| n == 0 || n >= Self::CAPACITY_MIN_BYTES;
                let expected = "at least 16777216 bytes, or 0 for all of a block device";
                self.capacity_bytes = number("capacity", value, legal, expected)?;
            }
            "iodepth" => {
                let legal = |n: &u32| (1..=256).contains(n);
                self.io_depth = number("iodepth", value, legal, "1 to 256")?;
            }
            "iops" => {
                let iops = number("iops", value, |_| true, "writes per second, 0 for no limit")?;
                self.iops = Some(iops).filter(|&n| n > 0);
            }
            "bandwidth" => {
                let expected = "bytes per second, 0 for no limit";
                let bandwidth = number("bandwidth", value, |_| true, expected)?;
                self.bandwidth_bytes = Some(bandwidth).filter(|&n| n > 0);
            }
            "backend" => {
                self.backend = match value {
                    "auto" => WalBackend::Auto,
                    "io_uring" => WalBackend::IoUring,
                    "threads" => WalBackend::Threads,
                    _ => {
                        let expected = "auto, io_uring or threads";
                        return Err(InvalidWalUri::Value {
                            name: "backend",
                            expected,
                        });
                    }
                };
            }
            "durable" => {
                self.durable_completion = number("durable", value, |_| true, "true or false")?;
            }
            "fence" => {
                let all = [WalFence::Page, WalFence::Reservation, WalFence::Detach];
                let fence = all.into_iter().find(|fence| fence.name() == value);
                self.fence = Some(fence.ok_or(InvalidWalUri::Value {
                    name: "fence",
                    expected: "page (brokers of one machine), reservation (an io2 volume with Multi-Attach) or detach (any \
                               other EBS volume)",
                })?);
            }
            "volume" => {
                let expected = "the id of an EBS volume, such as vol-0123456789abcdef0";
                self.volume = Some(number("volume", value, |_| true, expected)?);
            }
            "shape_write_ms" => {
                let legal = |n: &u64| (1..=10_000).contains(n);
                let ms = number("shape_write_ms", value, legal, "1 to 10000 milliseconds")?;
                self.shape_mut().write_latency = Duration::from_millis(ms);
            }
            "shape_iops" => {
                let iops = number("shape_iops", value, |&n| n > 0, "writes per second")?;
                self.shape_mut().iops = Some(iops);
            }
            "shape_bandwidth" => {
                let bandwidth = number("shape_bandwidth", value, |&n| n > 0, "bytes per second")?;
                self.shape_mut().bytes_per_s = Some(bandwidth);
            }
            unknown => return Err(InvalidWalUri::Parameter(unknown.to_owned())),
        }
        Ok(())
    }

    fn shape_mut(&mut self) -> &mut Shape {
        self.shape.get_or_insert_default()
    }
}

fn number<T: FromStr>(
    name: &'static str,
    value: &str,
    legal: impl Fn(&T) -> bool,
    expected: &'static str,
) -> Result<T, InvalidWalUri> {
    value
        .parse()
        .ok()
        .filter(legal)
        .ok_or(InvalidWalUri::Value { name, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let text = "0@file:///a%20b/wal?capacity=16777216&iodepth=4&backend=threads&durable=true";
        let wal: WalUri = text.parse().expect("legal");
        assert_eq!(wal.to_string(), text);
        assert_eq!(wal.to_string().parse::<WalUri>(), Ok(wal));
    }

    #[test]
    fn the_known_form() {
        let text = "0@file:///dev/nvme1n1?capacity=21474836480&iodepth=32&iops=4000";
        let wal: WalUri = text.parse().expect("legal");
        assert_eq!(wal.path, PathBuf::from("/dev/nvme1n1"));
        assert_eq!(
            (wal.capacity_bytes, wal.io_depth, wal.iops),
            (21_474_836_480, 32, Some(4_000))
        );
        let wal: WalUri = "file:///a%20b/wal?backend=threads&durable=true"
            .parse()
            .expect("legal");
        assert_eq!(wal.path, PathBuf::from("/a b/wal"));
        assert_eq!(
            (wal.backend, wal.durable_completion),
            (WalBackend::Threads, true)
        );
        assert_eq!(wal.capacity_bytes, WalUri::CAPACITY_DEFAULT_BYTES);
    }

    #[test]
    fn a_shape_is_asked_for_by_any_of_its_parameters() {
        let text = "file:///w?shape_write_ms=5&shape_iops=4000&shape_bandwidth=1048576000";
        let shape = Shape {
            write_latency: Duration::from_millis(5),
            iops: Some(4_000),
            bytes_per_s: Some(1_048_576_000),
        };
        assert_eq!(text.parse().map(|wal: WalUri| wal.shape), Ok(Some(shape)));
        let only_slow = Shape {
            write_latency: Duration::from_millis(1),
            ..Shape::default()
        };
        let wal: WalUri = "file:///w?shape_write_ms=1".parse().expect("legal");
        assert_eq!(wal.shape, Some(only_slow));
        let wal: WalUri = "file:///w?iops=3000".parse().expect("legal");
        assert_eq!(wal.shape, None);
    }

    #[test]
    fn whoever_takes_the_log_over_is_told_its_fence_and_its_volume() {
        let volume = "vol-0123456789abcdef0";
        let text = format!(
            "0@file:///dev/nvme1n1?capacity=0&iodepth=8&backend=auto&durable=true&fence=detach&volume={volume}"
        );
        let wal: WalUri = text.parse().expect("legal");
        assert_eq!(wal.fence, Some(WalFence::Detach));
        assert_eq!(wal.to_string(), text);
        for (fence, form) in [
            ("page", WalFence::Page),
            ("reservation", WalFence::Reservation),
        ] {
            let wal: WalUri = format!("file:///w?fence={fence}").parse().expect("legal");
            assert_eq!(wal.fence, Some(form));
            assert_eq!(wal.to_string().parse::<WalUri>(), Ok(wal));
        }
        let wal: WalUri = format!("file:///w?volume={volume}").parse().expect("legal");
        assert_eq!(
            (wal.fence, wal.volume.map(|id| id.to_string())),
            (None, Some(volume.to_owned()))
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |text: &str| text.parse::<WalUri>().expect_err("illegal").to_string();
        assert!(error("/var/wal").contains("0@file:///"));
        assert!(error("s3://bucket").contains("0@file:///"));
        assert!(error("file:///w?capacity=5").contains("16777216"));
        assert!(error("file:///w?iodepth=0").contains("1 to 256"));
        assert!(error("file:///w?shape_write_ms=0").contains("1 to 10000"));
        assert!(error("file:///w?shape_iops=0").contains("shape_iops"));
        assert!(error("file:///w?speed=1").contains("known are capacity"));
        assert!(error("file:///w?fence=hope").contains("reservation (an io2 volume"));
        assert!(error("file:///w?fence=detach").contains("&volume=vol-"));
        assert!(error("file:///w?volume=nvme1n1").contains("vol-0123456789abcdef0"));
        assert!(error("file:///w?fence=page&volume=vol-01234567").contains("fence=detach"));
    }
}
