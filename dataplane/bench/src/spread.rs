//! Medians with extremes.

use serde_json::{Value, json};

/// Median and extremes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Of an even number of values, the middle of the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Nothing where there are no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            f64::midpoint(values[middle - 1], values[middle])
        } else {
            values[middle]
        };
        Some(Self { median, min, max })
    }

    /// An object of the three.
    pub fn json(self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max })
    }

    /// `median (min–max)`, or the median alone where there was one value.
    pub fn cell(self, digits: usize) -> String {
        let Self { median, min, max } = self;
        if min == max {
            format!("{median:.digits$}")
        } else {
            format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_the_middle() {
        let odd = Spread::of([3.0, 1.0, 2.0]).expect("not empty");
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        let even = Spread::of([4.0, 1.0, 2.0, 3.0]).expect("not empty");
        assert_eq!((even.median, even.min, even.max), (2.5, 1.0, 4.0));
        assert_eq!(Spread::of([]), None);
        assert_eq!(odd.cell(1), "2.0 (1.0–3.0)");
        assert_eq!(Spread::of([2.0]).expect("one").cell(0), "2");
    }
}
