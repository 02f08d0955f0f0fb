//! EC2's answers, which are XML.

use quick_xml::de::from_str;
use serde::Deserialize;

use crate::{Attachment, AttachmentState, InstanceId, Volume, VolumeError};

#[derive(Debug, Deserialize)]
struct DescribeVolumes {
    #[serde(rename = "volumeSet", default)]
    volumes: Items<DescribedVolume>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct Items<T> {
    #[serde(rename = "item", default = "Vec::new")]
    items: Vec<T>,
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescribedVolume {
    volume_id: String,
    availability_zone: String,
    status: String,
    #[serde(default)]
    multi_attach_enabled: bool,
    #[serde(rename = "attachmentSet", default)]
    attachments: Items<DescribedAttachment>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DescribedAttachment {
    /// Absent where a service of AWS has the volume.
    #[serde(default)]
    instance_id: String,
    #[serde(default)]
    device: String,
    status: String,
}

#[derive(Debug, Deserialize)]
struct ErrorResponse {
    #[serde(rename = "Errors")]
    errors: Errors,
}

#[derive(Debug, Deserialize)]
struct Errors {
    #[serde(rename = "Error", default)]
    errors: Vec<DescribedError>,
}

#[derive(Debug, Deserialize)]
struct DescribedError {
    #[serde(rename = "Code")]
    code: String,
    #[serde(rename = "Message", default)]
    message: String,
}

fn describe_volumes(text: &str) -> Result<Vec<DescribedVolume>, VolumeError> {
    let read: Result<DescribeVolumes, _> = from_str(text);
    let read = read.map_err(|error| VolumeError::Refused {
        action: "DescribeVolumes",
        text: format!("its answer cannot be read: {error}"),
    })?;
    Ok(read.volumes.items)
}

/// The volume that `DescribeVolumes` was asked for by its id.
pub(crate) fn volume(text: &str, id: &str) -> Result<Volume, VolumeError> {
    let all = describe_volumes(text)?;
    let found = all.into_iter().find(|volume| volume.volume_id == id);
    let found = found.ok_or_else(|| VolumeError::Refused {
        action: "DescribeVolumes",
        text: format!("there is no volume {id}"),
    })?;
    let attachment = |found: DescribedAttachment| Attachment {
        instance: InstanceId(found.instance_id),
        state: match found.status.as_str() {
            "attaching" => AttachmentState::Attaching,
            "attached" => AttachmentState::Attached,
            "detaching" => AttachmentState::Detaching,
            "detached" => AttachmentState::Detached,
            _ => AttachmentState::Busy,
        },
    };
    Ok(Volume {
        is_available: found.status == "available",
        is_shared: found.multi_attach_enabled,
        zone: found.availability_zone,
        attachments: found
            .attachments
            .items
            .into_iter()
            .map(attachment)
            .collect(),
    })
}

/// The names under which the volumes of an instance are attached.
pub(crate) fn device_names(text: &str, instance: &InstanceId) -> Result<Vec<String>, VolumeError> {
    let attachments = describe_volumes(text)?
        .into_iter()
        .flat_map(|volume| volume.attachments.items);
    let here = attachments.filter(|attachment| attachment.instance_id == instance.0);
    Ok(here.map(|attachment| attachment.device).collect())
}

/// What a response says that is no success.
pub(crate) fn error(action: &'static str, status: u16, text: &str) -> VolumeError {
    let read: Result<ErrorResponse, _> = from_str(text);
    let first = read
        .ok()
        .and_then(|read| read.errors.errors.into_iter().next());
    let Some(DescribedError { code, message }) = first else {
        let text = format!("HTTP status {status}");
        return if status >= 500 || status == 429 {
            VolumeError::Unavailable(text)
        } else {
            VolumeError::Refused { action, text }
        };
    };
    let text = format!("{message} ({code})");
    // Error codes for the Amazon EC2 API, in the EC2 API reference.
    match code.as_str() {
        "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "RequestExpired"
        | "ExpiredToken" => VolumeError::Unavailable(text),
        _ if status >= 500 => VolumeError::Unavailable(text),
        "IncorrectState"
        | "VolumeInUse"
        | "IncorrectInstanceState"
        | "InvalidAttachment.NotFound" => VolumeError::OtherState(text),
        "InvalidVolume.ZoneMismatch" => VolumeError::OtherZone(text),
        "InvalidDevice.InUse" => VolumeError::NameTaken(text),
        "InvalidParameterValue" if message.contains("already in use") => {
            VolumeError::NameTaken(text)
        }
        // It has no code of its own.
        "InvalidParameterValue" if message.contains("same availability zone") => {
            VolumeError::OtherZone(text)
        }
        "UnauthorizedOperation" | "AuthFailure" | "AccessDenied" | "AccessDeniedException" => {
            VolumeError::Denied { action, text }
        }
        _ => VolumeError::Refused { action, text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIBED: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<DescribeVolumesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
  <requestId>59dbff89-35bd-4eac-99ed-be587EXAMPLE</requestId>
  <volumeSet>
    <item>
      <volumeId>vol-0123456789abcdef0</volumeId>
      <size>80</size>
      <snapshotId/>
      <availabilityZone>eu-central-1a</availabilityZone>
      <status>in-use</status>
      <attachmentSet>
        <item>
          <volumeId>vol-0123456789abcdef0</volumeId>
          <instanceId>i-0598c7d356eba48d7</instanceId>
          <device>/dev/sdh</device>
          <status>busy</status>
          <deleteOnTermination>false</deleteOnTermination>
        </item>
        <item>
          <volumeId>vol-0123456789abcdef0</volumeId>
          <instanceId>i-00000000000000002</instanceId>
          <device>/dev/sdf</device>
          <status>attached</status>
        </item>
      </attachmentSet>
      <volumeType>io2</volumeType>
      <multiAttachEnabled>true</multiAttachEnabled>
    </item>
  </volumeSet>
</DescribeVolumesResponse>"#;

    #[test]
    fn a_volume_and_where_it_is_attached() {
        let found = volume(DESCRIBED, "vol-0123456789abcdef0").expect("described");
        let attachment = |instance: &str, state| Attachment {
            instance: InstanceId(instance.to_owned()),
            state,
        };
        let expected = Volume {
            zone: "eu-central-1a".to_owned(),
            is_available: false,
            is_shared: true,
            attachments: vec![
                attachment("i-0598c7d356eba48d7", AttachmentState::Busy),
                attachment("i-00000000000000002", AttachmentState::Attached),
            ],
        };
        assert_eq!(found, expected);
        assert!(volume(DESCRIBED, "vol-01234567").is_err());
        let names = device_names(DESCRIBED, &InstanceId("i-0598c7d356eba48d7".to_owned()));
        assert_eq!(names, Ok(vec!["/dev/sdh".to_owned()]));
    }

    #[test]
    fn an_unattached_volume() {
        let text = "<DescribeVolumesResponse><volumeSet><item><volumeId>vol-01234567</volumeId>\
             <availabilityZone>z</availabilityZone><status>available</status><attachmentSet/></item></volumeSet>\
             </DescribeVolumesResponse>";
        let found = volume(text, "vol-01234567").expect("described");
        assert!(found.is_available && !found.is_shared && found.attachments.is_empty());
        let none = "<DescribeVolumesResponse><volumeSet/></DescribeVolumesResponse>";
        assert!(volume(none, "vol-01234567").is_err());
        assert!(volume("<html>", "vol-01234567").is_err());
    }

    #[test]
    fn errors_say_whether_to_try_again() {
        let says = |status, code: &str, message: &str| {
            let text = format!(
                "<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>\
                 <RequestID>ea966190-f9aa-478e-9ede-cb5432daacc0</RequestID></Response>"
            );
            error("AttachVolume", status, &text)
        };
        let transient = |error| matches!(error, VolumeError::Unavailable(_));
        assert!(transient(says(
            503,
            "RequestLimitExceeded",
            "Request limit exceeded."
        )));
        assert!(transient(says(
            500,
            "InternalError",
            "An internal error has occurred"
        )));
        assert!(transient(error("AttachVolume", 502, "<html>")));
        for code in ["IncorrectState", "VolumeInUse"] {
            assert!(matches!(says(400, code, ""), VolumeError::OtherState(_)));
        }
        assert!(matches!(
            says(400, "InvalidVolume.ZoneMismatch", ""),
            VolumeError::OtherZone(_)
        ));
        let taken =
            "Invalid value '/dev/sdf' for unixDevice. Attachment point /dev/sdf is already in use";
        assert!(matches!(
            says(400, "InvalidParameterValue", taken),
            VolumeError::NameTaken(_)
        ));
        let denied = says(403, "UnauthorizedOperation", "You are not authorized");
        assert!(denied.to_string().contains("ec2:DetachVolume"), "{denied}");
        let refused = says(400, "InvalidVolume.NotFound", "The volume does not exist");
        assert!(matches!(refused, VolumeError::Refused { .. }));
    }
}
