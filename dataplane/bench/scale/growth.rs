//! How a cost grows from step to step.
//!
//! A cost has a part that does not depend on the units, which the first step shows, and an excess over it. Where the excess
//! grows by more than the units, the cost is worse than linear. What may be chance counts as no excess.

use millrace_bench::spread::Spread;

/// An exponent above this is worse than linear, beyond what the measurement scatters.
pub(crate) const LINEAR_MAX: f64 = 1.15;
/// Costs that differ by less, as a share of the first step's, may differ by chance.
const NOISE_SHARE: f64 = 0.05;

/// The exponent of the growth between each step and the one before it, from the steps' units and costs. `None` where there is no
/// excess. Costs that differ by less than `noise`, or by less than rounds of one step, may differ by chance.
pub(crate) fn exponents(units: &[usize], costs: &[Spread], noise: f64) -> Vec<Option<f64>> {
    let Some(first) = costs.first() else {
        return Vec::new();
    };
    let range = |of: &Spread| of.max - of.min;
    let least = noise.max(NOISE_SHARE * first.median).max(range(first));
    let chance = |of: &Spread| least.max(range(of));
    let pairs = units.windows(2).zip(costs.windows(2));
    pairs
        .map(|(units, costs)| {
            let (before, after) = (&costs[0], &costs[1]);
            let excess = after.median - first.median;
            if excess <= chance(after) {
                return None;
            }
            let excess_before = (before.median - first.median).max(chance(before));
            let grown = units[1] as f64 / units[0] as f64;
            Some((excess / excess_before).ln() / grown.ln())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(median: f64) -> Spread {
        Spread {
            median,
            min: median,
            max: median,
        }
    }

    fn of(costs: impl Fn(f64) -> f64) -> Vec<Option<f64>> {
        let units = [10, 100, 1_000];
        let costs = units.map(|units| exact(costs(units as f64)));
        exponents(&units, &costs, 0.001)
    }

    #[test]
    fn a_fixed_part_does_not_hide_how_the_rest_grows() {
        let linear = of(|units| 100.0 + units);
        assert!(linear[1].is_some_and(|exponent| (exponent - 1.0).abs() < 0.05));
        let square = of(|units| 100.0 + units * units);
        assert!(square[1].is_some_and(|exponent| exponent > 1.9));
        let root = of(|units| units.sqrt());
        assert!(root[1].is_some_and(|exponent| exponent < 0.7));
    }

    #[test]
    fn chance_does_not_grow() {
        let of = |costs: [f64; 3]| exponents(&[1, 10, 100], &costs.map(exact), 0.1);
        assert_eq!(of([10.0, 10.4, 9.0]), [None, None]);
        // What could be chance at one step is not the reason why the next looks steep.
        assert!(of([10.0, 10.01, 14.0])[1].is_some_and(|exponent| exponent < 1.0));
    }

    #[test]
    fn rounds_that_differ_say_what_is_chance() {
        let scattered = Spread {
            median: 20.0,
            min: 10.0,
            max: 30.0,
        };
        let steps = [exact(10.0), scattered, exact(40.0)];
        let exponents = exponents(&[1, 2, 4], &steps, 0.1);
        assert_eq!(exponents[0], None);
        assert!(exponents[1].is_some_and(|exponent| exponent < 1.0));
    }
}
