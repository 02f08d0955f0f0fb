//! Both directions of a machine's network.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use millrace_tasks::Supervisor;
use millrace_time::SharedClock;
use parking_lot::Mutex;

use crate::{
    limiter::{Core, Limiter},
    metrics::Metrics,
    pacer::Pacer,
};

/// What large answers may be late by, and make up for at once: timers and busy processors are late by a few milliseconds.
const SPREAD_BURST: Duration = Duration::from_millis(5);

/// How the two directions share the machine's bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LimiterMode {
    /// Each has its own, as on machines whose links are full duplex.
    #[default]
    Separate,
    /// Both draw on one, as where a machine is promised so many bytes whichever way they go. What is
    /// sent in the tiers that leave headroom then also waits while too much of what is read is in flight.
    Shared,
}

impl LimiterMode {
    /// The name in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Separate => "separate",
            Self::Shared => "shared",
        }
    }
}

/// A text that names no [`LimiterMode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLimiterMode(String);

impl fmt::Display for UnknownLimiterMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is neither separate nor shared", self.0)
    }
}

impl std::error::Error for UnknownLimiterMode {}

impl FromStr for LimiterMode {
    type Err = UnknownLimiterMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let both = [Self::Separate, Self::Shared];
        let named = both.into_iter().find(|mode| mode.as_str() == text);
        named.ok_or_else(|| UnknownLimiterMode(text.to_owned()))
    }
}

/// Bandwidths, in bytes per second; none is without bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkConfig {
    /// How the directions share them.
    pub mode: LimiterMode,
    /// What comes in: `s3.network.ingress.baseline.bandwidth`.
    pub ingress_bytes_per_s: Option<u64>,
    /// What goes out: `s3.network.egress.baseline.bandwidth`.
    pub egress_bytes_per_s: Option<u64>,
}

/// The limiters of both directions. A clone is the same network.
///
/// In shared mode both are faces of one limiter: waiters of both directions stand in one queue, and
/// its rate is the smaller of the two bandwidths, since the one bandwidth must keep both.
#[derive(Debug, Clone)]
pub struct Network {
    /// What comes in.
    pub ingress: Limiter,
    /// What goes out.
    pub egress: Limiter,
    /// Spreads the responses to catch-up reads over time; what they carry is charged to `egress`
    /// already. Responses of tens of mebibytes that leave at once would make a queue in the network,
    /// in which acknowledgements wait.
    pub spread: Pacer,
    config: Arc<Mutex<NetworkConfig>>,
}

impl Network {
    /// A network of such bandwidths, which counts what passes in the metrics
    /// `millrace_network_*{direction,tier}`.
    #[must_use]
    pub fn new(clock: SharedClock, tasks: Supervisor, config: NetworkConfig) -> Self {
        let [ingress, egress] = config.rates();
        let ingress_core = Core::new(clock.clone(), tasks.clone(), ingress);
        let spread = Pacer::with_burst(clock.clone(), egress, SPREAD_BURST);
        let egress_core = match config.mode {
            LimiterMode::Separate => Core::new(clock, tasks, egress),
            LimiterMode::Shared => Arc::clone(&ingress_core),
        };
        Self {
            ingress: Limiter::over(ingress_core, Metrics::public("ingress")),
            egress: Limiter::over(egress_core, Metrics::public("egress")),
            spread,
            config: Arc::new(Mutex::new(config)),
        }
    }

    /// Changes the bandwidth of what comes in, at once.
    pub fn set_ingress(&self, bytes_per_s: Option<u64>) {
        self.change(|config| config.ingress_bytes_per_s = bytes_per_s);
    }

    /// Changes the bandwidth of what goes out, at once.
    pub fn set_egress(&self, bytes_per_s: Option<u64>) {
        self.change(|config| config.egress_bytes_per_s = bytes_per_s);
    }

    /// The bandwidths as they are set now.
    #[must_use]
    pub fn config(&self) -> NetworkConfig {
        *self.config.lock()
    }

    fn change(&self, change: impl FnOnce(&mut NetworkConfig)) {
        let mut config = self.config.lock();
        change(&mut config);
        let [ingress, egress] = config.rates();
        // Under the lock, so that of two changes the later one stays.
        self.ingress.set_rate(ingress);
        self.egress.set_rate(egress);
        self.spread.set_rate(egress);
    }
}

impl NetworkConfig {
    /// The rates of ingress and egress.
    fn rates(&self) -> [Option<u64>; 2] {
        let both = [self.ingress_bytes_per_s, self.egress_bytes_per_s];
        match self.mode {
            LimiterMode::Separate => both,
            LimiterMode::Shared => [both.into_iter().flatten().min(); 2],
        }
    }
}
