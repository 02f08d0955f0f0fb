//! The subject of a certificate as text.
//!
//! The text is what Java's `X500Principal.getName()` gives, because rules and ACLs that were written for
//! Kafka contain it: RFC 2253 with the keywords CN, C, L, ST, O, OU, STREET, DC and UID; other attributes
//! as dotted numbers with their value in hexadecimal; the last part of the name first.
//!
//! It differs where Java takes the bytes of every string as UTF-8: BMPString and UniversalString are decoded as
//! what they are (X.680, 41.15), so that `alice` is the same principal in whatever encoding its issuer wrote it.

use std::{borrow::Cow, fmt::Write as _};

use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// UTF8String, PrintableString, T61String, IA5String, GeneralString: bytes that are taken as UTF-8.
const BYTE_STRINGS: [u8; 5] = [0x0c, 0x13, 0x14, 0x16, 0x1b];
/// Four bytes a character, the highest first.
const UNIVERSAL_STRING: u8 = 0x1c;
/// Two bytes a character, the highest first.
const BMP_STRING: u8 = 0x1e;

/// The attributes that have a keyword, by their object identifiers in DER.
const KEYWORDS: [(&[u8], &str); 9] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        "DC",
    ),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
        "UID",
    ),
];

/// A certificate's subject cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// Not X.509, or a subject that is not DER.
    #[error("the client's certificate cannot be read")]
    Malformed,
    /// A part of the name is not in the encoding of its type: two names must never look the same.
    #[error(
        "the subject of the client's certificate has text that cannot be decoded; issue it with UTF8String attributes"
    )]
    Undecodable,
}

/// The subject of a certificate (DER); empty if it has none.
///
/// # Errors
/// See [`SubjectError`].
pub fn subject(certificate: &[u8]) -> Result<String, SubjectError> {
    let certificate = CertificateDer::from(certificate);
    let certificate = EndEntityCert::try_from(&certificate).map_err(|_| SubjectError::Malformed)?;
    name(certificate.subject())
}

/// The relative distinguished names of a Name (RFC 5280, 4.1.2.4), without the outer tag.
fn name(mut der: &[u8]) -> Result<String, SubjectError> {
    let mut parts = Vec::new();
    while !der.is_empty() {
        let mut attributes = expect(&mut der, SET)?;
        let mut part = String::new();
        while !attributes.is_empty() {
            if !part.is_empty() {
                part.push('+');
            }
            attribute(expect(&mut attributes, SEQUENCE)?, &mut part)?;
        }
        parts.push(part);
    }
    parts.reverse();
    Ok(parts.join(","))
}

fn attribute(mut der: &[u8], part: &mut String) -> Result<(), SubjectError> {
    let kind = expect(&mut der, OBJECT_IDENTIFIER)?;
    let encoded = der;
    let (tag, value) = element(&mut der)?;
    let keyword = KEYWORDS.iter().find(|(known, _)| *known == kind);
    match keyword {
        Some((_, keyword)) if is_string(tag) => {
            part.push_str(keyword);
            part.push('=');
            escape(&text(tag, value)?, part);
        }
        _ => {
            match keyword {
                Some((_, keyword)) => part.push_str(keyword),
                None => dotted(kind, part)?,
            }
            part.push_str("=#");
            let length = encoded.len() - der.len();
            for byte in encoded.iter().take(length) {
                let _ = write!(part, "{byte:02x}");
            }
        }
    }
    Ok(())
}

fn is_string(tag: u8) -> bool {
    BYTE_STRINGS.contains(&tag) || matches!(tag, UNIVERSAL_STRING | BMP_STRING)
}

/// A string by its type.
fn text(tag: u8, value: &[u8]) -> Result<Cow<'_, str>, SubjectError> {
    let text = match tag {
        BMP_STRING => {
            let (units, rest) = value.as_chunks::<2>();
            let units = units
                .iter()
                .map(|unit| u32::from(u16::from_be_bytes(*unit)));
            // A surrogate is no character: two of them would be one beyond the type's range.
            let text: Option<String> = units.map(char::from_u32).collect();
            text.filter(|_| rest.is_empty()).map(Cow::Owned)
        }
        UNIVERSAL_STRING => {
            let (units, rest) = value.as_chunks::<4>();
            let units = units.iter().map(|unit| u32::from_be_bytes(*unit));
            let text: Option<String> = units.map(char::from_u32).collect();
            text.filter(|_| rest.is_empty()).map(Cow::Owned)
        }
        _ => std::str::from_utf8(value).ok().map(Cow::Borrowed),
    };
    text.ok_or(SubjectError::Undecodable)
}

/// RFC 2253, section 2.4; `=` and every `#` are escaped as well, and NUL is `\00`.
fn escape(value: &str, part: &mut String) {
    let first = value.len() - value.trim_start_matches([' ', '\r']).len();
    let last = value.trim_end_matches([' ', '\r']).len();
    for (at, character) in value.char_indices() {
        match character {
            '\0' => {
                part.push_str("\\00");
                continue;
            }
            ',' | '=' | '+' | '<' | '>' | '#' | ';' | '"' | '\\' => part.push('\\'),
            _ if at < first || at >= last => part.push('\\'),
            _ => {}
        }
        part.push(character);
    }
}

/// An object identifier as dotted numbers.
fn dotted(der: &[u8], part: &mut String) -> Result<(), SubjectError> {
    let mut value: u64 = 0;
    let mut is_first = true;
    for byte in der {
        if value > u64::MAX >> 8 {
            return Err(SubjectError::Malformed);
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        let _ = match is_first {
            true => {
                let root = (value / 40).min(2);
                write!(part, "{root}.{}", value - root * 40)
            }
            false => write!(part, ".{value}"),
        };
        (value, is_first) = (0, false);
    }
    match is_first || der.last().is_some_and(|byte| byte & 0x80 != 0) {
        true => Err(SubjectError::Malformed),
        false => Ok(()),
    }
}

/// Takes the next element, which must have this tag; its contents.
fn expect<'a>(der: &mut &'a [u8], tag: u8) -> Result<&'a [u8], SubjectError> {
    match element(der)? {
        (found, contents) if found == tag => Ok(contents),
        _ => Err(SubjectError::Malformed),
    }
}

/// Takes the next element (X.690, 8.1): its tag and its contents.
fn element<'a>(der: &mut &'a [u8]) -> Result<(u8, &'a [u8]), SubjectError> {
    let malformed = SubjectError::Malformed;
    let (&[tag, length], rest) = der.split_first_chunk::<2>().ok_or(malformed)?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // Longer than 65,535 bytes is no name.
        0x81 | 0x82 => {
            let (digits, rest) = rest
                .split_at_checked(usize::from(length & 0x7f))
                .ok_or(malformed)?;
            let length = digits
                .iter()
                .fold(0, |length, &digit| length << 8 | usize::from(digit));
            (length, rest)
        }
        _ => return Err(malformed),
    };
    let (contents, rest) = rest.split_at_checked(length).ok_or(malformed)?;
    *der = rest;
    Ok((tag, contents))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    fn issued(parts: Vec<(DnType, DnValue)>) -> Vec<u8> {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind, value);
        }
        params
            .self_signed(&key)
            .expect("signed")
            .der()
            .as_ref()
            .to_vec()
    }

    #[test]
    fn names_are_written_as_java_writes_them() {
        let text = |text: &str| DnValue::Utf8String(text.to_owned());
        let certificate = issued(vec![
            (DnType::CountryName, text("US")),
            (DnType::OrganizationName, text("Sun Microsystems")),
            (DnType::OrganizationalUnitName, text("a+b, \"c\"; <d>")),
            (
                DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]),
                text("d@e"),
            ),
            (
                DnType::CustomDnType(vec![0, 9, 2_342, 19_200_300, 100, 1, 1]),
                text(" #1=\\ "),
            ),
            (DnType::CommonName, text("Dük\0e")),
        ]);
        // Checked against `new X500Principal(der).getName()` of Java 17.
        let expected = "CN=Dük\\00e,UID=\\ \\#1\\=\\\\\\ ,1.2.840.113549.1.9.1=#0c03644065,\
            OU=a\\+b\\, \\\"c\\\"\\; \\<d\\>,O=Sun Microsystems,C=US";
        assert_eq!(subject(&certificate).as_deref(), Ok(expected));
        assert_eq!(subject(&issued(vec![])).as_deref(), Ok(""));
        assert_eq!(subject(b"no certificate"), Err(SubjectError::Malformed));
    }

    #[test]
    fn parts_with_several_attributes_and_long_values() {
        let attribute = |kind: &[u8], tag: u8, value: &[u8]| {
            let length = u8::try_from(value.len()).expect("short");
            let kind_length = u8::try_from(kind.len()).expect("short");
            let contents = [&[6, kind_length], kind, &[tag, 0x81, length], value].concat();
            let contents_length = u8::try_from(contents.len()).expect("short");
            [&[0x30, 0x81, contents_length][..], &contents].concat()
        };
        let part = |attributes: &[Vec<u8>]| {
            let contents = attributes.concat();
            let length = u16::try_from(contents.len()).expect("short");
            [&[0x31, 0x82], &length.to_be_bytes()[..], &contents].concat()
        };
        let long = "x".repeat(200);
        let der = part(&[
            attribute(&[0x55, 4, 3], 0x13, long.as_bytes()),
            attribute(&[0x55, 4, 11], 0x16, b"b"),
        ]);
        assert_eq!(name(&der), Ok(format!("CN={long}+OU=b")));
        let number = part(&[attribute(&[0x55, 4, 3], 2, &[7])]);
        assert_eq!(name(&number).as_deref(), Ok("CN=#02810107"));
        let wrong = part(&[attribute(&[0x55, 4, 3], 0x0c, b"\xff")]);
        assert_eq!(name(&wrong), Err(SubjectError::Undecodable));
        let unfinished = part(&[attribute(&[0x55, 0x84], 0x0c, b"a")]);
        assert_eq!(name(&unfinished), Err(SubjectError::Malformed));
    }

    /// Their bytes are UTF-8 by chance, so that `alice` was `\00a\00l\00i\00c\00e`.
    #[test]
    fn wide_strings_are_the_text_that_they_encode() {
        use rcgen::string::{BmpString, UniversalString};

        let bmp = |text: &str| DnValue::BmpString(BmpString::try_from(text).expect("legal"));
        let universal =
            |text: &str| DnValue::UniversalString(UniversalString::try_from(text).expect("legal"));
        let named = |value| subject(&issued(vec![(DnType::CommonName, value)]));
        for text in ["alice", "Dük", "李"] {
            let plain = named(DnValue::Utf8String(text.to_owned()));
            assert_eq!(plain, Ok(format!("CN={text}")));
            assert_eq!(named(bmp(text)), plain);
            assert_eq!(named(universal(text)), plain);
        }
        assert_eq!(named(bmp("a,b")).as_deref(), Ok("CN=a\\,b"));
        assert_eq!(named(universal("𝒜")).as_deref(), Ok("CN=𝒜"));

        let wrong = Err(SubjectError::Undecodable);
        assert_eq!(text(BMP_STRING, b"\0a\0"), wrong, "half a character");
        assert_eq!(text(BMP_STRING, b"\xd8\x35\xdc\x9c"), wrong, "surrogates");
        assert_eq!(text(UNIVERSAL_STRING, b"\0\0\0a\0"), wrong);
        assert_eq!(text(UNIVERSAL_STRING, b"\0\x11\0\0"), wrong, "no character");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(der in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = name(&der);
            let _ = subject(&der);
            let mut part = String::new();
            let _ = attribute(&der, &mut part);
            let _ = dotted(&der, &mut part);
        }
    }
}
