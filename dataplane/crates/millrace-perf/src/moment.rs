//! Moments as people and JSON write them.

const MS_PER_DAY: i64 = 86_400_000;

/// RFC 3339 in UTC with milliseconds, as in `2026-11-22T13:00:00.000Z`.
pub(crate) fn rfc3339(unix_ms: i64) -> String {
    let (day, ms) = (
        unix_ms.div_euclid(MS_PER_DAY),
        unix_ms.rem_euclid(MS_PER_DAY),
    );
    let (year, month, day) = civil(day);
    let (hours, minutes) = (ms / 3_600_000, ms / 60_000 % 60);
    let (seconds, ms) = (ms / 1_000 % 60, ms % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z")
}

/// Year, month and day of a number of days since 1970-01-01: counted in years that begin in March, so
/// that leap days come last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year_of_era + later, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_352_400_123, "2026-11-22T13:00:00.123Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(unix_ms), text);
        }
    }
}
