//! What is known of the link, for `/v1/status`, the metrics and the log.

use millrace_time::{SharedClock, rfc3339};
use parking_lot::Mutex;

use crate::{admin::ControlLinkStatus, config::HostPort};

const CONNECTED: &str = "millrace_control_link_connected";
const CONNECTS: &str = "millrace_control_link_connects_total";

/// The state of one link.
pub(crate) struct LinkState {
    address: HostPort,
    clock: SharedClock,
    link: Mutex<Link>,
}

struct Link {
    is_connected: bool,
    since_ms: i64,
    last_error: Option<String>,
    /// Whether the log has the failure that lasts.
    is_reported: bool,
}

impl LinkState {
    /// Not connected yet.
    pub(super) fn new(address: HostPort, clock: SharedClock) -> Self {
        metrics::gauge!(CONNECTED).set(0.0);
        metrics::counter!(CONNECTS).absolute(0);
        let link = Mutex::new(Link {
            is_connected: false,
            since_ms: clock.wall_ms(),
            last_error: None,
            is_reported: false,
        });
        Self {
            address,
            clock,
            link,
        }
    }

    pub(super) fn connected(&self) {
        let mut link = self.link.lock();
        link.is_connected = true;
        link.since_ms = self.clock.wall_ms();
        link.is_reported = false;
        metrics::gauge!(CONNECTED).set(1.0);
        metrics::counter!(CONNECTS).increment(1);
        tracing::info!(gateway = %self.address, "the control link is connected");
    }

    /// Says in the log once why there is no link, however many attempts fail after that.
    pub(super) fn disconnected(&self, error: String) {
        let mut link = self.link.lock();
        if link.is_connected {
            link.is_connected = false;
            link.since_ms = self.clock.wall_ms();
            metrics::gauge!(CONNECTED).set(0.0);
        }
        if !link.is_reported {
            tracing::warn!(
                gateway = %self.address,
                "the control link is not connected: {error}; the broker serves clients and dials again, and says so \
                 here once it is connected"
            );
            link.is_reported = true;
        }
        link.last_error = Some(error);
    }

    /// For `/v1/status`.
    pub(crate) fn status(&self) -> ControlLinkStatus {
        let link = self.link.lock();
        ControlLinkStatus {
            state: match link.is_connected {
                true => "connected",
                false => "disconnected",
            },
            since: rfc3339::format(link.since_ms),
            address: self.address.to_string(),
            last_error: link.last_error.clone(),
        }
    }
}
