//! Bytes as JSON: as text, in base64 or in hexadecimal.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// How bytes are written into an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// As text where they are valid UTF-8, in base64 otherwise.
    Auto,
    Base64,
    Hex,
}

/// How bytes are written, and how many of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Showing {
    pub(crate) encoding: Encoding,
    /// Longer ones are cut.
    pub(crate) bytes_max: usize,
}

/// Bytes of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ShownBytes {
    encoding: Format,
    data: String,
    /// How many there are.
    bytes: usize,
    /// Whether `data` has only the first of them.
    truncated: bool,
    #[serde(skip)]
    written_bytes: usize,
}

/// Bytes of a request. What an answer had beside the data may stand there, so that a record that
/// was read can be sent again.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenBytes {
    encoding: Format,
    data: String,
    #[serde(default, rename = "bytes")]
    _bytes: Option<u64>,
    #[serde(default)]
    truncated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Text,
    Base64,
    Hex,
}

impl Showing {
    pub(crate) fn show(self, bytes: &[u8]) -> ShownBytes {
        let text = match self.encoding {
            Encoding::Auto => std::str::from_utf8(bytes).ok(),
            Encoding::Base64 | Encoding::Hex => None,
        };
        let cut = bytes.len().min(self.bytes_max);
        let (format, data, shown) = match (text, self.encoding) {
            (Some(text), _) => {
                let cut = text.floor_char_boundary(cut);
                (Format::Text, text[..cut].to_owned(), cut)
            }
            (None, Encoding::Hex) => (Format::Hex, to_hex(&bytes[..cut]), cut),
            (None, _) => (Format::Base64, STANDARD.encode(&bytes[..cut]), cut),
        };
        ShownBytes {
            encoding: format,
            bytes: bytes.len(),
            truncated: shown < bytes.len(),
            written_bytes: data.bytes().map(written_bytes).sum(),
            data,
        }
    }
}

impl ShownBytes {
    /// What it takes in the answer; never less than in memory.
    pub(crate) fn written_bytes(&self) -> usize {
        self.written_bytes
    }
}

/// What JSON writes for a byte: `\u0001`, `\n`, or the byte.
fn written_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

impl GivenBytes {
    /// The bytes, or what is wrong with them.
    pub(crate) fn decode(self) -> Result<Vec<u8>, String> {
        if self.truncated {
            return Err(
                "the data is truncated; read the record with a larger value_bytes_max".to_owned(),
            );
        }
        match self.encoding {
            Format::Text => Ok(self.data.into_bytes()),
            Format::Base64 => STANDARD
                .decode(self.data)
                .map_err(|error| format!("the data is not base64: {error}")),
            Format::Hex => from_hex(&self.data).ok_or_else(|| {
                "the data is not hexadecimal: write two digits for each byte".to_owned()
            }),
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    digits
        .chunks_exact(2)
        .map(|pair| {
            let byte = digit(pair[0])? << 4 | digit(pair[1])?;
            u8::try_from(byte).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(encoding: Encoding, bytes_max: usize, bytes: &[u8]) -> serde_json::Value {
        let showing = Showing {
            encoding,
            bytes_max,
        };
        serde_json::to_value(showing.show(bytes)).expect("serializable")
    }

    proptest! {
        #[test]
        fn what_is_shown_whole_can_be_sent_again(
            bytes: Vec<u8>,
            encoding in prop_oneof![
                Just(Encoding::Auto), Just(Encoding::Base64), Just(Encoding::Hex)
            ],
        ) {
            let given = shown(encoding, usize::MAX, &bytes);
            let given: GivenBytes = serde_json::from_value(given).expect("the same shape");
            prop_assert_eq!(given.decode(), Ok(bytes));
        }

        #[test]
        fn what_is_written_is_counted(text in "[\\x00-\\x7fé]{0,40}") {
            let showing = Showing { encoding: Encoding::Auto, bytes_max: usize::MAX };
            let shown = showing.show(text.as_bytes());
            let json = serde_json::to_string(&text).expect("serializable");
            prop_assert_eq!(shown.written_bytes(), json.len() - 2);
        }

        #[test]
        fn text_is_cut_between_characters(text: String, bytes_max in 0_usize..40) {
            let shown = shown(Encoding::Auto, bytes_max, text.as_bytes());
            let data = shown["data"].as_str().expect("text");
            prop_assert!(text.starts_with(data) && data.len() <= bytes_max);
            prop_assert_eq!(shown["truncated"].as_bool(), Some(data.len() < text.len()));
            prop_assert_eq!(shown["bytes"].as_u64(), Some(text.len() as u64));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_in_base64() {
        let shown = shown(Encoding::Auto, 2, &[0xff, 0, 1]);
        let expected = r#"{"encoding":"base64","data":"/wA=","bytes":3,"truncated":true}"#;
        let expected: serde_json::Value = serde_json::from_str(expected).expect("JSON");
        assert_eq!(shown, expected);
    }

    #[test]
    fn wrong_data_is_an_error_that_says_what_to_write() {
        for (json, expected) in [
            (r#"{"encoding":"hex","data":"0"}"#, "two digits"),
            (r#"{"encoding":"hex","data":"0g"}"#, "two digits"),
            (r#"{"encoding":"base64","data":"_"}"#, "not base64"),
            (
                r#"{"encoding":"text","data":"a","truncated":true}"#,
                "value_bytes_max",
            ),
        ] {
            let given: GivenBytes = serde_json::from_str(json).expect("the shape");
            let error = given.decode().expect_err("wrong");
            assert!(error.contains(expected), "{error}");
        }
    }
}
