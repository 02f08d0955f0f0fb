//! What is done to the cluster, in an order that the seed decides.

use fastrand::Rng;

use crate::arguments::Counts;

/// One thing that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Disruption {
    /// `kill -9`; the broker is started again once the others serve everything.
    Kill,
    /// `kill -9`; the broker is started again at once, before anybody has noticed.
    KillAndRestart,
    /// `kill -9` of two brokers at once.
    DoubleKill,
    /// SIGSTOP for ten seconds, then SIGCONT.
    Stop,
    /// One broker does not reach PostgreSQL for ten seconds; clients reach it.
    Cut,
    /// SIGTERM; the broker is started again once it has ended.
    Drain,
    /// PostgreSQL ends and is started again.
    DatabaseRestart,
    /// PostgreSQL is down for a while.
    DatabaseOutage,
    /// PostgreSQL's processes stand still for a while; connections stay open.
    DatabaseHang,
    /// Partitions are moved to other brokers.
    Moves,
}

impl Disruption {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::KillAndRestart => "kill_and_restart",
            Self::DoubleKill => "double_kill",
            Self::Stop => "stop",
            Self::Cut => "cut",
            Self::Drain => "drain",
            Self::DatabaseRestart => "database_restart",
            Self::DatabaseOutage => "database_outage",
            Self::DatabaseHang => "database_hang",
            Self::Moves => "moves",
        }
    }
}

/// So many of each, shuffled. Of the kills, every fourth is followed by a restart at once, and of a broker that is `alone` every
/// one; what happens to the database takes turns.
pub(crate) fn shuffled(counts: &Counts, alone: bool, random: &mut Rng) -> Vec<Disruption> {
    let kill = match alone {
        true => Disruption::KillAndRestart,
        false => Disruption::Kill,
    };
    let kills = [kill, kill, kill, Disruption::KillAndRestart];
    const DATABASE: [Disruption; 3] = [
        Disruption::DatabaseRestart,
        Disruption::DatabaseOutage,
        Disruption::DatabaseHang,
    ];
    let first = random.usize(..DATABASE.len());
    let database = DATABASE.iter().cycle().skip(first).take(counts.database);
    let mut deck: Vec<Disruption> = kills.iter().cycle().take(counts.kills).copied().collect();
    deck.extend(database);
    for (disruption, count) in [
        (Disruption::DoubleKill, counts.double_kills),
        (Disruption::Stop, counts.stops),
        (Disruption::Cut, counts.cuts),
        (Disruption::Drain, counts.drains),
        (Disruption::Moves, counts.moves),
    ] {
        deck.extend(std::iter::repeat_n(disruption, count));
    }
    random.shuffle(&mut deck);
    deck
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_the_order_and_not_the_counts() {
        let counts = Counts {
            kills: 8,
            double_kills: 1,
            stops: 2,
            cuts: 2,
            drains: 3,
            database: 3,
            moves: 4,
        };
        let deck = |seed| shuffled(&counts, false, &mut Rng::with_seed(seed));
        assert_eq!(deck(7), deck(7));
        assert_ne!(deck(7), deck(8));
        let sorted = |seed| {
            let mut deck = deck(seed);
            deck.sort_unstable();
            deck
        };
        assert_eq!(sorted(7), sorted(8));
        let count = |wanted| deck(7).iter().filter(|&&one| one == wanted).count();
        assert_eq!(count(Disruption::KillAndRestart), 2);
        assert_eq!(count(Disruption::DatabaseHang), 1);
        assert_eq!(deck(7).len(), 23);
        let alone = shuffled(&counts, true, &mut Rng::with_seed(7));
        assert!(!alone.contains(&Disruption::Kill));
    }
}
