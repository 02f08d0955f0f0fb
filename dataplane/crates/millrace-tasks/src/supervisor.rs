//! The supervisor: spawns tasks and remembers the first failure.

use std::{
    any::Any,
    convert::Infallible,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    thread,
};

use tokio::{
    runtime::Handle,
    sync::watch,
    task::{JoinError, JoinHandle},
};

use crate::{
    gate::{Gate, Gated},
    supervised::{Fault, Supervised},
    task::Task,
};

/// Why the broker has to end: the first supervised task that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The task.
    pub task: Task,
    /// `panicked: …` with the panic's message, or `failed: …` with the error.
    pub reason: Arc<str>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the task {} {}", self.task, self.reason)
    }
}

impl std::error::Error for Failure {}

/// What a task's output says about its end.
///
/// A task that must never end returns [`Infallible`], and the compiler proves it. One that ends when
/// its work is done, or its owner is gone, returns `()`; one that can fail returns a `Result`.
pub trait Outcome {
    /// The error, where the end is a failure.
    fn error(self) -> Option<String>;
}

impl Outcome for Infallible {
    fn error(self) -> Option<String> {
        match self {}
    }
}

impl Outcome for () {
    fn error(self) -> Option<String> {
        None
    }
}

impl<T: Outcome, E: fmt::Display> Outcome for Result<T, E> {
    fn error(self) -> Option<String> {
        self.map_or_else(|error| Some(error.to_string()), T::error)
    }
}

/// Spawns tasks, and declares the first that fails the broker's failure. Cheap to clone.
#[derive(Clone, Default)]
pub struct Supervisor {
    shared: Arc<Shared>,
    /// The current runtime unless set.
    runtimes: Option<Runtimes>,
}

/// Where tasks run, whoever spawns them.
#[derive(Clone)]
struct Runtimes {
    foreground: Handle,
    background: Handle,
}

#[derive(Default)]
struct Shared {
    failure: watch::Sender<Option<Failure>>,
    /// The task that shall panic; empty unless a test asked for it.
    fault: OnceLock<watch::Sender<Option<Task>>>,
    /// When tasks run; `None` outside of simulations: whenever they can.
    gate: Option<Arc<dyn Gate>>,
}

impl Supervisor {
    /// A supervisor without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// FOR SIMULATIONS: a supervisor whose tasks run while the gate is open. Computations run where they are asked for, since a
    /// thread of their own would end them in an order that no seed repeats.
    #[must_use]
    pub fn gated(gate: Arc<dyn Gate>) -> Self {
        let shared = Shared {
            gate: Some(gate),
            ..Shared::default()
        };
        Self {
            shared: Arc::new(shared),
            runtimes: None,
        }
    }

    /// The same supervisor, whose [background tasks](Supervisor::spawn_background) run on this runtime, and all others on the
    /// current one, even where a background task spawns them; in a simulation, which has one thread, all on the current one.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn with_background(&self, background: Handle) -> Self {
        let runtimes = || Runtimes {
            foreground: Handle::current(),
            background,
        };
        Self {
            shared: Arc::clone(&self.shared),
            runtimes: self.shared.gate.is_none().then(runtimes),
        }
    }

    /// Spawns a task. Aborting it is not a failure.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn spawn<F>(&self, task: Task, future: F) -> JoinHandle<()>
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        match &self.runtimes {
            Some(runtimes) => self.spawn_on(&runtimes.foreground, task, future),
            // Not supervised: this is the supervisor.
            None => tokio::spawn(self.supervised(task, future)),
        }
    }

    /// Spawns a task that yields to all others when the processor is busy: on the background runtime, or on the current one where
    /// there is none.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn spawn_background<F>(&self, task: Task, future: F) -> JoinHandle<()>
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        match &self.runtimes {
            Some(runtimes) => self.spawn_on(&runtimes.background, task, future),
            None => self.spawn(task, future),
        }
    }

    /// Spawns a task on this runtime.
    pub fn spawn_on<F>(&self, runtime: &Handle, task: Task, future: F) -> JoinHandle<()>
    where
        F: Future<Output: Outcome> + Send + 'static,
    {
        // Not supervised: this is the supervisor.
        runtime.spawn(self.supervised(task, future))
    }

    fn supervised<F>(&self, task: Task, future: F) -> impl Future<Output = ()> + use<F>
    where
        F: Future<Output: Outcome>,
    {
        let shared = Arc::clone(&self.shared);
        let fault = shared.fault.get().map(|fault| expected(fault, task));
        let supervised = Supervised { future, fault };
        let gate = self.shared.gate.clone();
        Gated::new(async move { shared.ended(task, supervised.await) }, gate)
    }

    /// Spawns a task that the caller awaits: its end, and its panic, are the caller's.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn spawn_awaited<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        // Not supervised: awaited.
        tokio::spawn(Gated::new(future, self.shared.gate.clone()))
    }

    /// Spawns a task that the caller awaits, where [background tasks](Supervisor::spawn_background) run.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn spawn_awaited_background<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match &self.runtimes {
            // Not supervised: awaited.
            Some(runtimes) => runtimes.background.spawn(future),
            None => self.spawn_awaited(future),
        }
    }

    /// Computes for long on a thread that serves no requests.
    ///
    /// # Errors
    /// The computation panicked, or the runtime stops.
    pub async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        match self.shared.gate {
            Some(_) => Ok(work()),
            None => tokio::task::spawn_blocking(work).await,
        }
    }

    /// Starts a thread that is named after its task.
    ///
    /// # Errors
    /// The system refuses more threads.
    pub fn spawn_thread<T: Outcome>(
        &self,
        task: Task,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<thread::JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name(task.name().to_owned());
        // Not supervised: this is the supervisor.
        thread.spawn(move || shared.ended(task, catch_unwind(AssertUnwindSafe(work))))
    }

    /// The first failure, if any task has failed.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.shared.failure.borrow().clone()
    }

    /// Resolves with the first failure.
    pub async fn failed(&self) -> Failure {
        let mut failure = self.shared.failure.subscribe();
        let failed = failure.wait_for(Option::is_some).await;
        let failed = failed.ok().and_then(|failure| failure.clone());
        // The sender lives in `self`, so it is there for as long as this waits.
        failed.expect("the channel is open, and waited for a failure")
    }

    /// FOR TESTS ONLY: lets [`Supervisor::inject_panic`] reach the tasks that are spawned from now
    /// on. They cost one more allocation each.
    pub fn allow_faults(&self) {
        self.shared.fault.get_or_init(watch::Sender::default);
    }

    /// FOR TESTS ONLY: every task of this name that runs, or is spawned later, panics at its next
    /// await, and a thread at its next piece of work.
    ///
    /// # Panics
    /// Without [`Supervisor::allow_faults`].
    pub fn inject_panic(&self, task: Task) {
        let fault = self.shared.fault.get();
        fault
            .expect("a test allows faults before the broker starts")
            .send_replace(Some(task));
    }

    /// FOR TESTS ONLY: where a thread panics, if [`Supervisor::inject_panic`] asked for it.
    ///
    /// # Panics
    /// That is what it is for.
    pub fn panic_if_injected(&self, task: Task) {
        if let Some(fault) = self.shared.fault.get()
            && *fault.borrow() == Some(task)
        {
            panic!("a test injected this panic");
        }
    }
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervisor")
            .field("failure", &self.failure())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn ended<T: Outcome>(&self, task: Task, ended: Result<T, Box<dyn Any + Send>>) {
        let reason = match ended {
            Ok(outcome) => match outcome.error() {
                None => return,
                Some(error) => format!("failed: {error}"),
            },
            Err(panic) => format!("panicked: {}", message(&*panic)),
        };
        tracing::error!(
            task = task.name(),
            reason,
            "a task failed; the broker will stop"
        );
        self.failure.send_if_modified(|failure| {
            let is_first = failure.is_none();
            let reason = reason.into();
            failure.get_or_insert(Failure { task, reason });
            is_first
        });
    }
}

fn expected(fault: &watch::Sender<Option<Task>>, task: Task) -> Fault {
    let mut fault = fault.subscribe();
    Box::pin(async move {
        // Without a supervisor nobody can ask for a panic any more.
        if fault
            .wait_for(|wanted| *wanted == Some(task))
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    })
}

/// What `panic!` was given.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn panics(message: String) {
        panic!("{message}");
    }

    #[tokio::test]
    async fn the_first_panic_is_the_failure_and_names_its_task() {
        let tasks = Supervisor::new();
        assert_eq!(tasks.failure(), None);
        let first = tasks.spawn(Task::Upload, panics("block 7 is out of order".to_owned()));
        first.await.expect("the panic was caught");
        tasks.spawn(Task::Timers, panics("later".to_owned()));
        let failure = tasks.failed().await;
        assert_eq!(
            failure.to_string(),
            "the task upload panicked: block 7 is out of order"
        );
        assert_eq!(tasks.failure(), Some(failure));
    }

    #[tokio::test]
    async fn an_error_is_a_failure_an_end_or_an_abort_is_none() {
        let tasks = Supervisor::new();
        let aborted = tasks.spawn(Task::Timers, std::future::pending::<Infallible>());
        aborted.abort();
        assert!(aborted.await.expect_err("aborted").is_cancelled());
        tasks.spawn(Task::WalTrim, async {}).await.expect("ends");
        let fine = tasks.spawn(Task::WalTrim, async { Ok::<(), fmt::Error>(()) });
        fine.await.expect("ends");
        assert_eq!(tasks.failure(), None);
        let refused = std::io::Error::other("the socket is closed");
        tasks.spawn(Task::AdminHttp, async { Err::<(), _>(refused) });
        let failure = tasks.failed().await;
        assert_eq!(
            failure.to_string(),
            "the task admin-http failed: the socket is closed"
        );
    }

    #[tokio::test]
    async fn a_threads_panic_is_a_failure() {
        let tasks = Supervisor::new();
        let thread = tasks.spawn_thread(Task::WalIo, || assert_eq!(1 + 1, 3, "arithmetic"));
        thread
            .expect("starts")
            .join()
            .expect("the panic was caught");
        let failure = tasks.failed().await;
        assert_eq!(failure.task, Task::WalIo);
        assert!(failure.reason.contains("arithmetic"), "{failure}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_injected_panic_reaches_a_task_that_waits_and_no_other() {
        let tasks = Supervisor::new();
        tasks.allow_faults();
        let other = tasks.spawn(Task::Timers, std::future::pending::<Infallible>());
        let waiting = tasks.spawn(Task::Upload, std::future::pending::<Infallible>());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(tasks.failure(), None);
        tasks.inject_panic(Task::Upload);
        waiting.await.expect("the panic was caught");
        assert_eq!(tasks.failed().await.task, Task::Upload);
        assert!(!other.is_finished());
        // One that is spawned later meets it, too.
        let later = Supervisor::new();
        later.allow_faults();
        later.inject_panic(Task::WalTrim);
        later.spawn(Task::WalTrim, async {});
        assert_eq!(later.failed().await.task, Task::WalTrim);
    }

    #[test]
    fn names_are_unique_and_lead_back_to_the_task() {
        for task in Task::ALL {
            assert_eq!(task.name().parse(), Ok(*task));
        }
        let error = "no-such-task"
            .parse::<Task>()
            .expect_err("unknown")
            .to_string();
        assert!(error.contains("upload-pace"), "{error}");
    }
}
