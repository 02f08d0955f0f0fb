//! Threads that do not wait for a processor.

use rustix::process::setpriority_process;

/// In steps of nice(2): ten times the weight of an ordinary thread.
const NICE: i32 = -10;

/// Lets the calling thread go before ordinary ones: what it stands for would have a processor of its own,
/// or need none. Without the permission to do so it says that it did not.
pub fn raise_priority() {
    if let Err(error) = setpriority_process(None, NICE) {
        eprintln!("a thread that should go first waits for the processor: {error}");
    }
}
