//! What grows, in which steps, and what the rest stays at.

use millrace_bench::population::Population;

/// Partitions of a topic, where there are as many.
const PARTITIONS_PER_TOPIC: usize = 100;

/// What grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Partitions,
    Connections,
    Groups,
    Objects,
}

/// How much of everything a broker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) partitions: usize,
    pub(crate) connections: usize,
    pub(crate) groups: usize,
    /// Objects that are seeded; 0 is only those of the load.
    pub(crate) objects: usize,
}

/// What an axis does not let grow.
pub(crate) const BASE: Sizes = Sizes {
    partitions: 100,
    connections: 10,
    groups: 10,
    objects: 0,
};

impl Axis {
    pub(crate) const ALL: [Self; 4] = [
        Self::Partitions,
        Self::Connections,
        Self::Groups,
        Self::Objects,
    ];

    /// Its name on the command line, in tables and in the JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Partitions => "partitions",
            Self::Connections => "connections",
            Self::Groups => "groups",
            Self::Objects => "objects",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|axis| axis.name() == name)
    }

    /// How many units its steps have, ascending.
    pub(crate) const fn steps(self, quick: bool) -> &'static [usize] {
        match (self, quick) {
            (Self::Partitions, false) => &[1, 10, 100, 1_000, 5_000, 20_000],
            (Self::Partitions, true) => &[1, 100, 2_000],
            (Self::Connections | Self::Groups, false) => &[10, 100, 1_000, 10_000],
            (Self::Connections | Self::Groups, true) => &[10, 100, 1_000],
            (Self::Objects, false) => &[100, 1_000, 10_000, 100_000, 1_000_000],
            (Self::Objects, true) => &[100, 10_000, 100_000],
        }
    }

    /// The sizes of a step with so many units.
    pub(crate) const fn sizes(self, units: usize) -> Sizes {
        match self {
            Self::Partitions => Sizes {
                partitions: units,
                ..BASE
            },
            Self::Connections => Sizes {
                connections: units,
                ..BASE
            },
            Self::Groups => Sizes {
                groups: units,
                ..BASE
            },
            Self::Objects => Sizes {
                objects: units,
                ..BASE
            },
        }
    }
}

impl Sizes {
    pub(crate) fn population(&self) -> Population {
        let partitions = self.partitions.min(PARTITIONS_PER_TOPIC);
        Population {
            topics: self.partitions / partitions,
            partitions,
            groups: self.groups,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_as_many_units_as_it_says() {
        for axis in Axis::ALL {
            assert_eq!(Axis::named(axis.name()), Some(axis));
            for &units in [true, false].iter().flat_map(|&quick| axis.steps(quick)) {
                let sizes = axis.sizes(units);
                let population = sizes.population();
                let partitions = population.topics * population.partitions;
                assert_eq!(partitions, sizes.partitions);
            }
        }
    }
}
