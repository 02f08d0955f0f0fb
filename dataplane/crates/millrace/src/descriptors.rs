//! File descriptors: each connection needs one, and the usual soft limit of 1,024 is far too low.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything that is not a connection: log, metadata, listeners, objects.
const OTHER_DESCRIPTORS: u64 = 512;

/// Raises the soft limit as far as the hard limit allows and `connections_max` needs.
pub(crate) fn raise_limit(connections_max: usize) {
    let wanted = u64::try_from(connections_max)
        .unwrap_or(u64::MAX)
        .saturating_add(OTHER_DESCRIPTORS);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let allowed = maximum.map_or(wanted, |maximum| wanted.min(maximum));
    if current.is_some_and(|current| current < allowed) {
        let limit = Rlimit {
            current: Some(allowed),
            maximum,
        };
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(
                wanted = allowed,
                "the limit of open files stays as it is: {error}"
            );
            return;
        }
    }
    if allowed < wanted {
        tracing::warn!(
            open_files = allowed,
            connections_max,
            "the hard limit of open files is below max.connections; raise it with `ulimit -Hn`"
        );
    }
}
