//! Threads that do not wait for a processor.

use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

/// Lets the calling thread go before ordinary ones: what it stands for would have a processor of its own,
/// or need none. A higher priority among ordinary threads is not enough, because the scheduler lets the one that runs
/// finish its slice. Without the permission to do so it says that it did not.
pub fn raise_priority() {
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin);
    // The lowest of the real-time priorities is above all ordinary ones.
    let raised = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy);
    if let Err(error) = raised {
        eprintln!("a thread that should go first waits for the processor: {error}");
    }
}
