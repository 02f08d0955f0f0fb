//! Key placement: whether a million keys go to the same partitions as with Kafka's own client.

use std::{error::Error, fs};

use fastrand::Rng;
use millrace_client::producer::partition_for_key;

use crate::{
    peers::JAVA_4,
    rounds::{Bench, Section},
};

const KEYS: usize = 1_000_000;
const KEY_BYTES_MAX: u8 = 64;
const SEED: u64 = 794;
/// Powers of two and others, few and many.
const PARTITIONS: [u32; 8] = [1, 2, 3, 16, 64, 100, 128, 9_973];
pub(crate) const LOAD: &str = "1000000_random_keys_of_0_to_64_bytes";

/// Compares all keys for all numbers of partitions.
///
/// # Errors
/// The first difference.
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let keys = keys();
    let (keys_file, places_file) = (bench.data.join("keys"), bench.data.join("places"));
    fs::write(&keys_file, with_lengths(&keys))?;
    bench
        .java(JAVA_4)?
        .place_keys(&keys_file, &places_file, &PARTITIONS)?;
    let places = fs::read(&places_file)?;
    compare(&keys, &places)?;
    let fields = vec![
        ("keys_placed_as_java", KEYS as f64),
        ("partition_counts", PARTITIONS.len() as f64),
    ];
    bench.report.add(Section::Keys, LOAD, "ours", fields);
    Ok(())
}

fn keys() -> Vec<Vec<u8>> {
    let mut random = Rng::with_seed(SEED);
    let mut key = || {
        let mut key = vec![0; usize::from(random.u8(..=KEY_BYTES_MAX))];
        random.fill(&mut key);
        key
    };
    (0..KEYS).map(|_| key()).collect()
}

/// As `KeyPlacement.java` reads them.
fn with_lengths(keys: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for key in keys {
        bytes.extend(u8::try_from(key.len()));
        bytes.extend_from_slice(key);
    }
    bytes
}

/// `places` has what Java says, as `KeyPlacement.java` writes it.
fn compare(keys: &[Vec<u8>], places: &[u8]) -> Result<(), String> {
    let (places, rest) = places.as_chunks::<4>();
    if places.len() != keys.len() * PARTITIONS.len() || !rest.is_empty() {
        let count = places.len();
        return Err(format!(
            "Java placed {count} keys, not {} ",
            keys.len() * PARTITIONS.len()
        ));
    }
    let places = places.chunks_exact(PARTITIONS.len());
    for (number, (key, javas)) in keys.iter().zip(places).enumerate() {
        for (partitions, java) in PARTITIONS.iter().zip(javas) {
            let (java, ours) = (
                i32::from_be_bytes(*java),
                partition_for_key(key, *partitions as usize),
            );
            if java != ours {
                return Err(format!(
                    "key {number}, {key:02x?}: of {partitions} partitions Java chooses {java}, we {ours}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_told() {
        let keys = vec![b"foobar".to_vec(), Vec::new()];
        let place = |key: &Vec<u8>| PARTITIONS.map(|count| partition_for_key(key, count as usize));
        let mut places: Vec<u8> = keys
            .iter()
            .flat_map(place)
            .flat_map(i32::to_be_bytes)
            .collect();
        assert_eq!(compare(&keys, &places), Ok(()));
        assert!(compare(&keys, &places[4..]).is_err());
        if let Some(last) = places.last_mut() {
            *last ^= 1;
        }
        let error = compare(&keys, &places).expect_err("a difference");
        assert!(
            error.starts_with("key 1, []: of 9973 partitions"),
            "{error}"
        );
    }
}
