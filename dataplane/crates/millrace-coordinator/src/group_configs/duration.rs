//! Durations as ISO 8601 writes them: `PnDTnHnMn.nS`.

use std::time::Duration;

const SECONDS_OF_DAY: u64 = 24 * 60 * 60;

/// The seconds of each unit behind the `T`, in the order in which units come.
const UNITS_OF_TIME: [(char, u64); 3] = [('H', 60 * 60), ('M', 60), ('S', 1)];

/// The duration; nothing for another text, a negative one, and one that is too long for a number of seconds.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let text = text.to_ascii_uppercase();
    let rest = text.strip_prefix('P')?;
    let (days, time) = match rest.split_once('T') {
        Some((days, time)) => (days, Some(time)),
        None => (rest, None),
    };
    if days.is_empty() && time.is_none() {
        return None;
    }
    let mut total = Duration::ZERO;
    if !days.is_empty() {
        let days = whole(days.strip_suffix('D')?)?;
        total = Duration::from_secs(days.checked_mul(SECONDS_OF_DAY)?);
    }
    match time {
        Some(time) => total.checked_add(parse_time(time)?),
        None => Some(total),
    }
}

/// `nHnMn.nS`, of which at least one is there.
fn parse_time(mut text: &str) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    for (unit, seconds) in UNITS_OF_TIME {
        let Some((number, rest)) = text.split_once(unit) else {
            continue;
        };
        let part = match number.split_once('.') {
            Some((number, fraction)) if unit == 'S' => {
                Duration::new(whole(number)?, nanoseconds(fraction)?)
            }
            _ => Duration::from_secs(whole(number)?.checked_mul(seconds)?),
        };
        total = total.checked_add(part)?;
        text = rest;
    }
    text.is_empty().then_some(total)
}

fn whole(digits: &str) -> Option<u64> {
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then(|| digits.parse().ok()).flatten()
}

/// Up to nine digits behind the point.
fn nanoseconds(digits: &str) -> Option<u32> {
    if digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<9}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_8601_durations_are_read() {
        for (text, expected) in [
            ("PT1H", Duration::from_secs(3_600)),
            ("P2D", Duration::from_secs(2 * SECONDS_OF_DAY)),
            ("p1dt2h3m4.5s", Duration::new(86_400 + 7_384, 500_000_000)),
            ("PT0.000000001S", Duration::from_nanos(1)),
            ("PT0S", Duration::ZERO),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "P",
            "PT",
            "P1DT",
            "1D",
            "-PT1H",
            "PT-1H",
            "PT+1H",
            "PT1M1H",
            "PT1.5H",
            "PT1",
            "PT1S1",
            "PT.5S",
            "P99999999999999999999D",
            "P999999999999999999D",
            "PT1.0000000000S",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
