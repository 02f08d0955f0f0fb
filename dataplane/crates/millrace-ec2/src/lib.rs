//! EBS volumes: where one is attached, moving it to this instance, and finding its device there. Knows nothing of what is on
//! a volume.
//!
//! - `volumes`: the seam at EC2, and what it answers
//! - `query`: EC2's Query API; `answer`: its XML
//! - `instance`: this instance, from the metadata service
//! - `mover`: attaching a volume here, wherever it is, by small steps that may be repeated
//! - `device`: the device of a volume, by its serial number

mod answer;
mod device;
mod instance;
mod mover;
mod query;
mod volumes;

pub use device::{DeviceFolders, find_device};
pub use instance::{Instance, InstanceError};
pub use mover::{MoveError, MovePace, Step, VolumeMover};
pub use query::{Ec2, Ec2Endpoints};
pub use volumes::{
    Attachment, AttachmentState, InstanceId, InvalidVolumeId, Volume, VolumeError, VolumeId,
    Volumes,
};
