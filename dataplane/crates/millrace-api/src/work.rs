//! A request that is worked on: how long that takes, and who pays for it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use millrace_wire::{ApiKey, Response, service::BoxFuture};

use crate::{
    call::{Answer, Call},
    context::Context,
    quota::{Payer, throttle_time_ms},
};

/// A request from its arrival to its answer.
pub(crate) struct Work {
    context: Arc<Context>,
    key: ApiKey,
    version: i16,
    started: Duration,
    /// Who pays for the time that the broker works on it, if somebody has to.
    payer: Option<Payer>,
    /// That time, as far as it is counted.
    spent: Duration,
}

impl Work {
    pub(crate) fn new(context: &Arc<Context>, call: &Call, started: Duration) -> Self {
        Self {
            context: Arc::clone(context),
            key: call.request.api_key,
            version: call.version(),
            started,
            payer: context.quotas.requester(call),
            spent: Duration::ZERO,
        }
    }

    /// Does a part of the work, and counts its time if somebody pays for it.
    pub(crate) async fn of<T>(&mut self, part: BoxFuture<'_, T>) -> T {
        if self.payer.is_none() {
            return part.await;
        }
        let busy = Busy {
            context: &self.context,
            spent: &mut self.spent,
            part,
        };
        busy.await
    }

    /// The rest of the work, up to the response.
    pub(crate) async fn answer(mut self, rest: BoxFuture<'static, Answer>) -> Response {
        let answer = self.of(rest).await;
        self.answered(answer)
    }

    /// The rest of the work, where nobody wants a response.
    pub(crate) async fn silent(mut self, rest: BoxFuture<'static, i16>) {
        let error = self.of(rest).await;
        self.charge();
        self.measure(error, Duration::ZERO);
    }

    /// The work is done.
    pub(crate) fn answered(self, answer: Answer) -> Response {
        let Answer {
            response,
            error,
            waited,
        } = answer;
        self.measure(error, waited);
        match self.charge() {
            0 => response,
            ms => response.with_throttle_time(self.key, self.version, ms),
        }
    }

    pub(crate) fn measure(&self, error: i16, waited: Duration) {
        let took = self.context.now().saturating_sub(self.started);
        self.context.metrics.answered(self.key, error, took, waited);
    }

    /// Lets the client pay for the time; how many milliseconds it has to wait.
    fn charge(&self) -> i32 {
        let Some(payer) = &self.payer else { return 0 };
        let now = self.context.now();
        throttle_time_ms(payer.pay_time(self.spent, now), now)
    }
}

/// A part of the work whose time is counted: that in which it runs, not that in which it waits.
struct Busy<'a, 'b, T> {
    context: &'a Context,
    spent: &'a mut Duration,
    part: BoxFuture<'b, T>,
}

impl<T> Future for Busy<'_, '_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<T> {
        let began = self.context.now();
        let polled = self.part.as_mut().poll(task);
        let took = self.context.now().saturating_sub(began);
        *self.spent += took;
        polled
    }
}
