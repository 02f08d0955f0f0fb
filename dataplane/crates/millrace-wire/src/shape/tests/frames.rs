//! Whole frames, from their first byte to the message: those of a corpus that Kafka's own message classes have encoded,
//! and what becomes of them when they are damaged.

use std::collections::BTreeSet;

use kafka_protocol::messages::*;

use super::*;
use crate::request::{MalformedRequest, Request, decode, parse_request};

/// Written by `corpus/Frames.java`.
const CORPUS: &str = include_str!("../../../corpus/requests.txt");
/// Versions that are newer than the Kafka that has written the corpus.
const NEWER: [(ApiKey, i16); 3] = [
    (ApiKey::ListOffsets, 11),
    (ApiKey::OffsetCommit, 10),
    (ApiKey::OffsetFetch, 10),
];

#[derive(Debug, Clone)]
struct Frame {
    api_key: ApiKey,
    version: i16,
    bytes: Vec<u8>,
}

/// The frames of the corpus whose API and version are served.
fn corpus() -> Vec<Frame> {
    let served = |line: &str| {
        let mut fields = line.split(' ');
        let mut field = || fields.next().expect("three fields");
        let key: i16 = field().parse().expect("an API key");
        let version = field().parse().expect("a version");
        let support = SUPPORTED.iter().find(|one| one.api_key as i16 == key)?;
        let hex = field().as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16).expect("hex") as u8;
        let bytes = hex.chunks(2).map(|two| digit(two[0]) << 4 | digit(two[1]));
        (support.min..=support.max)
            .contains(&version)
            .then(|| Frame {
                api_key: support.api_key,
                version,
                bytes: bytes.collect(),
            })
    };
    CORPUS.lines().filter_map(served).collect()
}

/// Decodes the message of the request's API.
fn decode_any(request: &Request) -> Result<(), MalformedRequest> {
    macro_rules! by_key {
        ($($key:ident $request:ident $response:ident,)*) => {
            match request.api_key {
                $(ApiKey::$key => decode::<$request>(request).map(drop),)*
                other => panic!("{other:?} is served and not tested"),
            }
        };
    }
    for_messages!(by_key)
}

/// Goes the way of a frame that a client has sent.
fn read(bytes: &[u8]) -> Result<(), MalformedRequest> {
    let request = parse_request(Bytes::copy_from_slice(bytes))?;
    if request.api_key == ApiKey::Produce {
        // What is not a message of the codec is read by itself.
        drop(crate::split_produce(request.clone()));
    }
    decode_any(&request)
}

#[derive(Debug, Clone)]
enum Damage {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u32),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Cut(prop::sample::Index),
    /// Copies a part to another place.
    Splice(prop::sample::Index, prop::sample::Index, usize),
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len();
        match self {
            Self::Set(at, value) => bytes[at.index(len)] = *value,
            Self::Flip(at, bit) => bytes[at.index(len)] ^= 1 << bit,
            Self::Insert(at, more) => {
                let at = at.index(len);
                bytes.splice(at..at, more.iter().copied());
            }
            Self::Remove(at, count) => {
                let at = at.index(len);
                bytes.drain(at..len.min(at + count));
            }
            Self::Cut(at) => bytes.truncate(at.index(len)),
            Self::Splice(from, to, count) => {
                let from = from.index(len);
                let part = bytes[from..len.min(from + count)].to_vec();
                let to = to.index(len);
                bytes.splice(to..to, part);
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    let edges = prop::sample::select(vec![0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff]);
    let lengths = prop::sample::select(vec![
        vec![0x7f, 0xff, 0xff, 0xff],
        vec![0xff, 0xff, 0xff, 0xff, 0x0f],
        vec![0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
    ]);
    prop_oneof![
        (at(), prop_oneof![edges, any::<u8>()]).prop_map(|(at, value)| Damage::Set(at, value)),
        (at(), 0..8u32).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (at(), lengths).prop_map(|(at, more)| Damage::Insert(at, more)),
        (at(), 1..9usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        at().prop_map(Damage::Cut),
        (at(), at(), 1..40usize).prop_map(|(from, to, count)| Damage::Splice(from, to, count)),
    ]
}

#[test]
fn every_frame_of_the_corpus_is_read() {
    for frame in corpus() {
        let (key, version) = (frame.api_key, frame.version);
        assert_eq!(read(&frame.bytes), Ok(()), "{key:?} {version}");
    }
}

#[test]
fn the_corpus_has_every_version_that_is_served() {
    let corpus = corpus();
    let present: BTreeSet<_> = corpus
        .iter()
        .map(|one| (one.api_key as i16, one.version))
        .collect();
    for support in SUPPORTED {
        for version in support.min..=support.max {
            let is_newer = NEWER.contains(&(support.api_key, version));
            let is_present = present.contains(&(support.api_key as i16, version));
            assert!(is_present || is_newer, "{:?} {version}", support.api_key);
        }
    }
}

#[test]
fn no_single_damaged_byte_and_no_cut_panics() {
    for frame in corpus() {
        for at in 0..frame.bytes.len() {
            drop(read(&frame.bytes[..at]));
            for value in [0x00, 0x7f, 0x80, 0xff] {
                let mut bytes = frame.bytes.clone();
                bytes[at] = value;
                drop(read(&bytes));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn damaged_frames_of_the_corpus_never_panic(
        frame in prop::sample::select(corpus()),
        damages in prop::collection::vec(damage(), 1..6),
    ) {
        let mut bytes = frame.bytes;
        for one in &damages {
            one.apply(&mut bytes);
        }
        drop(read(&bytes));
    }
}

/// `PROPTEST_CASES` asks for another number.
fn cases() -> u32 {
    const CASES: u32 = 4_000;
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return ProptestConfig::default().cases;
    }
    CASES
}
