//! Moments as RFC 3339 writes them, in milliseconds since 1970.

/// Milliseconds since 1970 as RFC 3339 in UTC. Days are counted as Howard Hinnant's
/// `civil_from_days` does, in eras of 400 years from 1 March of year 0.
#[must_use]
pub fn format(wall_ms: i64) -> String {
    const DAY_MS: i64 = 86_400_000;
    let (days, ms) = (wall_ms.div_euclid(DAY_MS), wall_ms.rem_euclid(DAY_MS));
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (seconds, ms) = (ms / 1_000, ms % 1_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    std::format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Reads a moment, with or without a fraction, in UTC or with an offset; `None` where it is none.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        let all = digits.bytes().all(|byte| byte.is_ascii_digit());
        if all { digits.parse().ok() } else { None }
    };
    let marks = [(4, '-'), (7, '-'), (13, ':'), (16, ':')];
    let marked = |&(at, mark): &(usize, char)| text[at..].starts_with(mark);
    if text.len() < 20 || !text.is_ascii() || !marks.iter().all(marked) {
        return None;
    }
    if !matches!(text.as_bytes()[10], b'T' | b't' | b' ') {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let in_range = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range {
        return None;
    }
    let (fraction_ms, zone) = match text[19..].strip_prefix('.') {
        None => (0, &text[19..]),
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let padded: String = rest[..digits]
                .chars()
                .chain("000".chars())
                .take(3)
                .collect();
            if digits == 0 {
                return None;
            }
            (padded.parse::<i64>().ok()?, &rest[digits..])
        }
    };
    let offset_minutes = match zone.as_bytes() {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let part =
                |range| -> Option<i64> { zone.get::<std::ops::Range<usize>>(range)?.parse().ok() };
            let minutes = part(1..3)? * 60 + part(4..6)?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    // Hinnant's `days_from_civil`.
    let shifted = year - i64::from(month <= 2);
    let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    let minutes = days * 1_440 + hour * 60 + minute - offset_minutes;
    Some((minutes * 60 + second) * 1_000 + fraction_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_everybody_does() {
        for (wall_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_827_696_789, "2000-02-29T12:34:56.789Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_102_444_799_000, "2099-12-31T23:59:59.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(format(wall_ms), text);
            assert_eq!(parse(text), Some(wall_ms));
        }
    }

    #[test]
    fn offsets_and_fractions_are_read_and_nothing_else_is() {
        let moment = parse("2026-11-22T13:00:00Z").expect("a moment");
        for same in [
            "2026-11-22T13:00:00.000Z",
            "2026-11-22t14:30:00+01:30",
            "2026-11-22 08:00:00.0-05:00",
        ] {
            assert_eq!(parse(same), Some(moment), "{same}");
        }
        assert_eq!(parse("2026-11-22T13:00:00.1234Z"), Some(moment + 123));
        for wrong in [
            "",
            "now",
            "2026-11-22",
            "2026-11-22T13:00:00",
            "2026-13-22T13:00:00Z",
            "2026-11-22T24:00:00Z",
            "2026-11-22T13:00:00.Z",
            "2026-11-22T13:00:00+0100",
            "2026-11-22T13:00:00Zx",
            "+026-11-22T13:00:00Z",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
