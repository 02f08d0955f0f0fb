//! The part of a consumer's subscription that the coordinator looks at: the topics.

use crate::records::{Cursor, Form, MalformedRecord};

/// The topics that a subscription of the `consumer` protocol type names; none where it cannot be
/// read. Layout: version (16 bits), count (32), names (16-bit length each), more that is not read.
pub(crate) fn topics(metadata: &[u8]) -> Option<Vec<String>> {
    let read = || -> Result<Vec<String>, MalformedRecord> {
        let mut cursor = Cursor::new(metadata);
        cursor.i16()?;
        let count = cursor.count(Form::Fixed)?;
        (0..count).map(|_| cursor.text(Form::Fixed)).collect()
    };
    read().ok()
}
