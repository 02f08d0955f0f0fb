//! One request in a handler, and its response.

use std::{sync::Arc, time::Duration};

use millrace_wire::{
    ApiKey, Encodable, HeaderVersion, Request, Response, encode,
    error_code::{ErrorCode, NONE},
    service::{BoxFuture, CloseReason, Peer},
};

use crate::context::Context;

/// A request and who sent it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) request: Request,
    pub(crate) peer: Arc<Peer>,
}

/// What an answer must repeat of its request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply {
    api_key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
}

/// A finished answer, with what is measured of it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) response: Response,
    /// The first error that it tells, for the count of requests.
    pub(crate) error: i16,
    /// How long the request was kept waiting on purpose.
    pub(crate) waited: Duration,
}

/// What a handler has made of a request, once its place in the order is fixed.
pub(crate) enum Taken {
    /// Answered.
    Now(Answer),
    /// The rest happens beside the requests that follow.
    Later(BoxFuture<'static, Answer>),
    /// The same, and nobody wants the answer; gives the first error.
    Silent(BoxFuture<'static, i16>),
    /// Answered as [`Taken::Later`], and then the connection ends.
    Last(BoxFuture<'static, Answer>, CloseReason),
}

/// What a handler gives: the request is taken, or its connection must end.
pub(crate) type Outcome = Result<Taken, CloseReason>;

/// A handler: stage 1 of one API. What it awaits holds up the connection's next request.
pub(crate) type Handler = for<'a> fn(&'a Arc<Context>, Call) -> BoxFuture<'a, Outcome>;

impl Call {
    pub(crate) const fn reply(&self) -> Reply {
        let Request {
            api_key,
            version,
            correlation_id,
            ..
        } = self.request;
        Reply {
            api_key,
            version,
            correlation_id,
        }
    }

    pub(crate) const fn version(&self) -> i16 {
        self.request.version
    }

    /// The client's name for itself; empty where it has none.
    pub(crate) fn client_id(&self) -> String {
        self.request
            .client_id
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// Where the client comes from, as Kafka writes it.
    pub(crate) fn client_host(&self) -> String {
        format!("/{}", self.peer.address.ip())
    }
}

impl Reply {
    /// Writes an answer; `error` is the first error in it.
    ///
    /// # Panics
    /// The message says what its version cannot. That is a defect of the handler, which its test
    /// over all versions excludes; the connection ends, nothing else is disturbed.
    pub(crate) fn with<M: Encodable + HeaderVersion>(self, message: &M, error: i16) -> Answer {
        let encoded = encode(self.api_key, self.version, self.correlation_id, message);
        Self::finished(
            encoded.expect("handlers build only what the version can say"),
            error,
        )
    }

    pub(crate) const fn finished(response: Response, error: i16) -> Answer {
        Answer {
            response,
            error,
            waited: Duration::ZERO,
        }
    }

    /// The same, where nothing is left to do.
    pub(crate) fn now<M: Encodable + HeaderVersion>(self, message: &M, error: i16) -> Outcome {
        Ok(Taken::Now(self.with(message, error)))
    }
}

impl Taken {
    pub(crate) fn later(rest: impl Future<Output = Answer> + Send + 'static) -> Outcome {
        Ok(Self::Later(Box::pin(rest)))
    }
}

/// The first of some codes that is an error.
pub(crate) fn first_error(codes: impl IntoIterator<Item = i16>) -> i16 {
    codes.into_iter().find(|code| *code != NONE).unwrap_or(NONE)
}

/// The code of an outcome.
pub(crate) fn code_of<T>(result: &Result<T, ErrorCode>) -> i16 {
    result.as_ref().err().map_or(NONE, ErrorCode::code)
}
