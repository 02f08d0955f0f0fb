//! How a cost grows from step to step.
//!
//! A cost has a part that does not depend on the units, which the first step shows, and an excess over it. Where the excess
//! grows by more than the units, the cost is worse than linear. What may be chance counts as no excess.

/// An exponent above this is worse than linear, beyond what the measurement scatters.
pub(crate) const LINEAR_MAX: f64 = 1.15;
/// Costs that differ by less, as a share of the first step's, may differ by chance.
const NOISE_SHARE: f64 = 0.05;

/// The exponent of the growth between each step and the one before it, from the steps' units and costs. `None` where there is no
/// excess.
pub(crate) fn exponents(units: &[usize], costs: &[f64], noise: f64) -> Vec<Option<f64>> {
    let first = costs.first().copied().unwrap_or_default();
    let chance = noise.max(NOISE_SHARE * first);
    let pairs = units.windows(2).zip(costs.windows(2));
    pairs
        .map(|(units, costs)| {
            let excess = costs[1] - first;
            if excess <= chance {
                return None;
            }
            let before = (costs[0] - first).max(chance);
            let grown = units[1] as f64 / units[0] as f64;
            Some((excess / before).ln() / grown.ln())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(costs: impl Fn(f64) -> f64) -> Vec<Option<f64>> {
        let units = [10, 100, 1_000];
        exponents(&units, &units.map(|units| costs(units as f64)), 0.001)
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
        assert_eq!(
            exponents(&[1, 10, 100], &[10.0, 10.4, 9.0], 0.1),
            [None, None]
        );
        // What could be chance at one step is not the reason why the next looks steep.
        let steep = exponents(&[1, 10, 100], &[10.0, 10.01, 14.0], 0.1);
        assert!(steep[1].is_some_and(|exponent| exponent < 1.0));
    }
}
