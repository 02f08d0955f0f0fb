//! Stage 2 of one connection's requests: many futures in flight, responses in request order.
//!
//! The head of the queue is always polled. The futures behind it are polled while the responses that
//! finished early stay below a bound, so that a slow head cannot make its followers pile up memory.
//! Each slot has its own waker: a wake-up polls the futures that were woken, not all.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;
use millrace_budget::Charge;
use millrace_wire::{
    Response,
    service::{Accepted, BoxFuture, CloseReason},
};

/// Requests of one connection whose responses have not been taken.
pub(crate) struct Pipeline {
    slots: VecDeque<Slot>,
    task: Arc<AtomicWaker>,
    /// Bytes of responses that are finished and wait for an earlier one.
    early_bytes: usize,
    early_bytes_max: usize,
    /// Bytes charged to the requests in here and to those taken but not released.
    bytes: u64,
}

struct Slot {
    work: Work,
    charge: Charge,
    wake: Arc<SlotWake>,
    waker: Waker,
}

enum Work {
    Answer(BoxFuture<'static, Response>),
    Silence(BoxFuture<'static, ()>),
    Done(Option<Response>),
}

struct SlotWake {
    woken: AtomicBool,
    task: Arc<AtomicWaker>,
}

impl Wake for SlotWake {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.task.wake();
        }
    }
}

/// A finished request: its response, if it has one, and the memory it is charged with.
pub(crate) struct Finished {
    pub(crate) response: Option<Response>,
    pub(crate) charge: Charge,
}

impl Pipeline {
    /// A pipeline in which responses that overtook the head stay below `early_bytes_max`, up to one.
    pub(crate) fn new(early_bytes_max: usize) -> Self {
        Self {
            slots: VecDeque::new(),
            task: Arc::default(),
            early_bytes: 0,
            early_bytes_max,
            bytes: 0,
        }
    }

    /// Adds a request behind all others.
    ///
    /// # Errors
    /// The reason, where stage 1 asked for the connection to be closed.
    pub(crate) fn push(
        &mut self,
        accepted: Accepted,
        mut charge: Charge,
    ) -> Result<(), CloseReason> {
        let mut last = None;
        let work = match accepted {
            Accepted::Ready(response) => {
                self.early_bytes += response.len();
                charge.set(response.len() as u64);
                Work::Done(Some(response))
            }
            Accepted::Pending(future) => Work::Answer(future),
            Accepted::Silent(future) => Work::Silence(future),
            Accepted::Close(reason) => return Err(reason),
            Accepted::Last(future, reason) => {
                last = Some(reason);
                Work::Answer(future)
            }
        };
        let wake = Arc::new(SlotWake {
            woken: AtomicBool::new(true),
            task: Arc::clone(&self.task),
        });
        let waker = Waker::from(Arc::clone(&wake));
        self.bytes += charge.bytes();
        self.slots.push_back(Slot {
            work,
            charge,
            wake,
            waker,
        });
        self.task.wake();
        last.map_or(Ok(()), Err)
    }

    /// Bytes of requests at work, and of responses until they are [released](Self::release).
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes a finished request off the count, after its response has been written.
    pub(crate) fn release(&mut self, charge: &Charge) {
        self.bytes -= charge.bytes();
    }

    /// Whether no request is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Polls what was woken, and takes the head if it is finished.
    pub(crate) fn poll_next(&mut self, context: &Context<'_>) -> Poll<Finished> {
        self.task.register(context.waker());
        for index in 0..self.slots.len() {
            if index > 0 && self.early_bytes >= self.early_bytes_max {
                break;
            }
            let slot = &mut self.slots[index];
            let charged = slot.charge.bytes();
            self.early_bytes += slot.poll();
            self.bytes = self.bytes - charged + slot.charge.bytes();
            if index == 0 && matches!(slot.work, Work::Done(_)) {
                return self.pop().map_or(Poll::Pending, Poll::Ready);
            }
        }
        Poll::Pending
    }

    fn pop(&mut self) -> Option<Finished> {
        let slot = self.slots.pop_front()?;
        let Work::Done(response) = slot.work else {
            return None;
        };
        self.early_bytes -= response.as_ref().map_or(0, Response::len);
        Some(Finished {
            response,
            charge: slot.charge,
        })
    }
}

impl Slot {
    /// Polls the future if it was woken; the bytes of the response that this finished.
    fn poll(&mut self) -> usize {
        let running = !matches!(self.work, Work::Done(_));
        if !running || !self.wake.woken.swap(false, Ordering::AcqRel) {
            return 0;
        }
        let mut context = Context::from_waker(&self.waker);
        let outcome = match &mut self.work {
            Work::Answer(future) => future.as_mut().poll(&mut context).map(Some),
            Work::Silence(future) => future.as_mut().poll(&mut context).map(|()| None),
            Work::Done(_) => Poll::Pending,
        };
        let Poll::Ready(response) = outcome else {
            return 0;
        };
        let bytes = response.as_ref().map_or(0, Response::len);
        // The request has become a response: that is counted instead, without waiting.
        self.charge.set(bytes as u64);
        self.work = Work::Done(response);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::atomic::AtomicUsize};

    use bytes::Bytes;
    use futures_util::{FutureExt, poll};
    use millrace_budget::Budget;
    use tokio::sync::oneshot;

    use super::*;

    fn response(bytes: usize) -> Response {
        Response::from_segments(vec![Bytes::from(vec![0; bytes])])
    }

    fn charge() -> Charge {
        Budget::new(1_000).try_take(1).expect("room")
    }

    fn push_waiting(pipeline: &mut Pipeline) -> oneshot::Sender<usize> {
        let (answer, answered) = oneshot::channel();
        let future = async move { response(answered.await.expect("answered")) };
        pipeline
            .push(Accepted::Pending(future.boxed()), charge())
            .expect("open");
        answer
    }

    async fn next(pipeline: &mut Pipeline) -> usize {
        let finished = poll_fn(|context| pipeline.poll_next(context)).await;
        finished.response.map_or(0, |response| response.len())
    }

    #[tokio::test]
    async fn responses_leave_in_request_order() {
        let mut pipeline = Pipeline::new(1_000);
        let first = push_waiting(&mut pipeline);
        let second = push_waiting(&mut pipeline);
        pipeline
            .push(Accepted::Ready(response(3)), charge())
            .expect("open");
        second.send(2).expect("alive");
        assert!(poll!(Box::pin(next(&mut pipeline))).is_pending());
        first.send(1).expect("alive");
        assert_eq!(next(&mut pipeline).await, 1);
        assert_eq!(next(&mut pipeline).await, 2);
        assert_eq!(next(&mut pipeline).await, 3);
        assert!(pipeline.is_empty());
        assert_eq!(pipeline.early_bytes, 0);
    }

    #[tokio::test]
    async fn followers_are_driven_while_the_head_waits() {
        let mut pipeline = Pipeline::new(1_000);
        let head = push_waiting(&mut pipeline);
        let polled = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&polled);
        let silent = async move {
            seen.fetch_add(1, Ordering::SeqCst);
        };
        pipeline
            .push(Accepted::Silent(silent.boxed()), charge())
            .expect("open");
        assert!(poll!(Box::pin(next(&mut pipeline))).is_pending());
        assert_eq!(polled.load(Ordering::SeqCst), 1);
        head.send(9).expect("alive");
        assert_eq!(next(&mut pipeline).await, 9);
        assert_eq!(next(&mut pipeline).await, 0, "acks=0 has no response");
    }

    #[tokio::test]
    async fn early_responses_are_bounded() {
        let mut pipeline = Pipeline::new(100);
        let head = push_waiting(&mut pipeline);
        let made = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let made = Arc::clone(&made);
            let work = async move {
                made.fetch_add(1, Ordering::SeqCst);
                response(60)
            };
            pipeline
                .push(Accepted::Pending(work.boxed()), charge())
                .expect("open");
        }
        assert!(poll!(Box::pin(next(&mut pipeline))).is_pending());
        assert_eq!(
            made.load(Ordering::SeqCst),
            2,
            "60 + 60 passes the bound of 100"
        );
        head.send(1).expect("alive");
        for _ in 0..11 {
            assert!(next(&mut pipeline).await > 0);
        }
        assert_eq!(made.load(Ordering::SeqCst), 10);
        assert_eq!(pipeline.bytes(), 601, "taken, not yet released");
    }

    #[tokio::test]
    async fn a_close_is_handed_to_the_caller() {
        let mut pipeline = Pipeline::new(100);
        let reason = CloseReason::Stopping;
        let outcome = pipeline.push(Accepted::Close(reason.clone()), charge());
        assert_eq!(outcome, Err(reason));
        assert!(pipeline.is_empty());
    }
}
