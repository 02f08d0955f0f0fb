//! The seam at EC2: what is asked of it, and what it answers.

use std::{
    fmt::{self, Debug, Display},
    str::FromStr,
};

use async_trait::async_trait;

/// The id of an EBS volume: `vol-` and 8 or 17 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeId(String);

/// A text is no id of a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no id of an EBS volume, such as vol-0123456789abcdef0")]
pub struct InvalidVolumeId(String);

impl FromStr for VolumeId {
    type Err = InvalidVolumeId;

    fn from_str(text: &str) -> Result<Self, InvalidVolumeId> {
        let digits = text.strip_prefix("vol-").unwrap_or_default();
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if matches!(digits.len(), 8 | 17) && digits.chars().all(is_digit) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidVolumeId(text.to_owned()))
        }
    }
}

impl VolumeId {
    /// The serial number of the volume's NVMe device: the id without its hyphen.
    #[must_use]
    pub fn serial(&self) -> String {
        self.0.replace('-', "")
    }
}

impl Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of an instance, as EC2 writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InstanceId(pub String);

impl Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A volume as EC2 describes it, which may be a little later than it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// The name of its availability zone.
    pub zone: String,
    /// `available`: it may be attached.
    pub is_available: bool,
    /// Several instances may have it at once (Multi-Attach).
    pub is_shared: bool,
    /// What it is attached to, or about to be.
    pub attachments: Vec<Attachment>,
}

/// A volume at an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// The instance.
    pub instance: InstanceId,
    /// How far it is.
    pub state: AttachmentState,
}

/// How far an attachment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentState {
    /// Asked for.
    Attaching,
    /// The instance has, or gets, the device.
    Attached,
    /// Asked to go.
    Detaching,
    /// Asked to go, while the instance keeps it: its system does not answer, or the device is open.
    Busy,
    /// Gone.
    Detached,
}

/// Why EC2 did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// Throttled, unavailable or unreachable: the same request may succeed later.
    #[error("EC2 does not answer now: {0}")]
    Unavailable(String),
    /// The volume is in another state than the request needs: it changes, or has changed.
    #[error("the volume is in another state than it was: {0}")]
    OtherState(String),
    /// Another volume of the instance has the device's name.
    #[error("the device name is taken: {0}")]
    NameTaken(String),
    /// Volumes are attached within their zone only.
    #[error("{0}; only an instance in the volume's availability zone can attach it")]
    OtherZone(String),
    /// The credentials do not allow it.
    #[error(
        "{action} is denied: {text}; the broker's role needs ec2:DescribeVolumes, and ec2:AttachVolume and ec2:DetachVolume on \
         the volumes and instances of all brokers"
    )]
    Denied {
        /// The action.
        action: &'static str,
        /// What EC2 says.
        text: String,
    },
    /// Anything else. Trying again finds the same.
    #[error("{action} was refused: {text}")]
    Refused {
        /// The action.
        action: &'static str,
        /// EC2's code and message.
        text: String,
    },
}

/// EC2, as far as volumes are concerned. A request that was carried out has only begun: its effect is seen later, by
/// [`describe`](Self::describe).
#[async_trait]
pub trait Volumes: Debug + Send + Sync + 'static {
    /// Where the volume is.
    async fn describe(&self, volume: &VolumeId) -> Result<Volume, VolumeError>;

    /// Names under which volumes are attached to `instance`: `/dev/sdf`.
    async fn device_names(&self, instance: &InstanceId) -> Result<Vec<String>, VolumeError>;

    /// Begins to detach the volume. By force, the instance has no say.
    async fn detach(
        &self,
        volume: &VolumeId,
        instance: &InstanceId,
        force: bool,
    ) -> Result<(), VolumeError>;

    /// Begins to attach the volume, under `name`.
    async fn attach(
        &self,
        volume: &VolumeId,
        instance: &InstanceId,
        name: &str,
    ) -> Result<(), VolumeError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_volumes() {
        for id in ["vol-0123456789abcdef0", "vol-01234567"] {
            let volume: VolumeId = id.parse().expect("legal");
            assert_eq!(volume.to_string(), id);
            assert_eq!(volume.serial(), id.replace('-', ""));
        }
        for id in [
            "",
            "vol-",
            "vol-0123",
            "vol-0123456789ABCDEF0",
            "i-0123456789abcdef0",
            "vol-../../etc/pass",
        ] {
            let error = id.parse::<VolumeId>().expect_err("illegal").to_string();
            assert!(error.contains("vol-0123456789abcdef0"), "{error}");
        }
    }
}
