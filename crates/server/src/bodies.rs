//! Bodies: how a request's comes in, in memory that callers share, and how a large answer's goes out.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, header},
    response::Response,
};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::{sync::Notify, task::JoinHandle};

use crate::{
    app::App,
    edge::{Caller, refusal},
    extract::{linger, next_part, too_large},
    pool::Part,
    problem::Problem,
    shares::{Refusal, Share},
};

/// Bytes of a body that comes without a token: proofs of control of a domain and questions are short.
const MAX_ANONYMOUS_BODY: usize = 16 * 1024;
/// An answer larger than this is one of its caller's requests until it was read.
const LARGE_ANSWER: u64 = 16 * 1024;

/// A body that nobody reads any more. A client that asked first whether to send it is told by the refusal.
pub(crate) async fn refused(headers: &HeaderMap, body: Body) {
    if !headers.contains_key(header::EXPECT) {
        linger(body).await;
    }
}

/// The request with its whole body, and the memory that it takes.
pub(crate) async fn taken_in(
    app: &App,
    caller: &Caller,
    payer: &Caller,
    request: Request,
) -> Result<(Request, Part), Problem> {
    let limit = match caller {
        Caller::Anyone(_) => app.settings.max_body_bytes.min(MAX_ANONYMOUS_BODY),
        Caller::Token(_) => app.settings.max_body_bytes,
    };
    let (parts, mut body) = request.into_parts();
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > limit) {
        refused(&parts.headers, body).await;
        return Err(too_large(limit));
    }
    let full = |why: Refusal| refusal(app, why, "max_body_memory_mib");
    // Memory is taken for what arrived, not for what is announced: announcing costs nothing.
    let memory = app.bodies.of(payer.lane()).take(payer.owner(), 0, u64::MAX).map_err(full)?;
    let (mut bytes, mut reserved) = (Vec::new(), 0);
    let (since, longest) = (Instant::now(), app.settings.request_time());
    let stall = Duration::from_secs(app.settings.body_stall_seconds);
    loop {
        let patience = stall.min(longest.saturating_sub(since.elapsed()));
        let part = tokio::select! {
            part = next_part(&mut body, patience) => part.map_err(|problem| {
                app.metrics.turned_away("time");
                problem.closing()
            })?,
            () = memory.revoked() => {
                drop(bytes);
                linger(body).await;
                return Err(full(Refusal::Own).closing());
            }
        };
        let Some(part) = part else { break };
        if bytes.len() + part.len() > limit {
            linger(body).await;
            return Err(too_large(limit));
        }
        if bytes.is_empty() && length == Some(part.len()) {
            // All of it at once, as it mostly comes: no copy.
            memory.grow(part.len() as u64).map_err(full)?;
            return Ok((Request::from_parts(parts, Body::from(part)), memory));
        }
        if bytes.len() + part.len() > reserved {
            // A list that grows doubles.
            let more = (bytes.len() + part.len()).next_power_of_two().max(4096) - reserved;
            if let Err(why) = memory.grow(more as u64) {
                drop(bytes);
                linger(body).await;
                return Err(full(why).closing());
            }
            reserved += more;
            bytes.reserve_exact(reserved - bytes.len());
        }
        bytes.extend_from_slice(&part);
    }
    Ok((Request::from_parts(parts, Body::from(bytes)), memory))
}

/// Ends the connection of a request.
#[derive(Clone, Default)]
pub(crate) struct Cut(pub Arc<Notify>);

/// A large answer stays one of its caller's requests until it was handed to the connection, and takes `memory` until then. Where
/// others need that, the connection is cut: its client reads too slowly. Streams of events have places of their own.
pub(crate) fn until_read(
    response: Response,
    slot: Share,
    cut: &Cut,
    memory: impl FnOnce(u64) -> Result<Part, Refusal>,
) -> Result<Response, Refusal> {
    let length = response.body().size_hint().exact();
    let stream = response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
    if stream || length.is_some_and(|length| length <= LARGE_ANSWER) {
        return Ok(response);
    }
    let (memory, cut) = (memory(length.unwrap_or(LARGE_ANSWER))?, cut.clone());
    let memory = tokio::spawn(async move {
        memory.revoked().await;
        cut.0.notify_one();
    });
    Ok(response.map(|body| Body::new(HeldBody { body, rest: Bytes::new(), memory, _slot: slot })))
}

struct HeldBody {
    body: Body,
    /// Of the last frame: a frame that was handed over whole would be out of sight, and still in memory.
    rest: Bytes,
    /// Holds the memory.
    memory: JoinHandle<()>,
    _slot: Share,
}

impl Drop for HeldBody {
    fn drop(&mut self) {
        self.memory.abort();
    }
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                end => return Poll::Ready(end),
            }
        }
        let some = self.rest.len().min(LARGE_ANSWER as usize);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(some)))))
    }
    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut all = SizeHint::new();
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all.set_lower(hint.lower() + rest);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        pool::Pool,
        shares::{Owner, Shares},
    };

    #[tokio::test]
    async fn a_large_answer_is_one_of_its_callers_requests_until_it_was_read() {
        let (slots, pool, cut, owner) = (Shares::new(10), Pool::new(150_000), Cut::default(), Owner::Token(1));
        let answer = |bytes: usize| Response::new(Body::from(vec![b'x'; bytes]));
        let hold = |answer: Response| {
            until_read(answer, slots.take(owner, 10).unwrap(), &cut, |bytes| pool.take(owner, bytes, u64::MAX))
        };
        drop(hold(answer(1)).unwrap());
        let mut body = hold(answer(100_000)).unwrap().into_body();
        assert_eq!((body.size_hint().exact(), pool.used()), (Some(100_000), 100_000));
        assert!(hold(answer(100_000)).is_err(), "it has its share");
        let mut read = 0;
        while let Some(frame) = http_body_util::BodyExt::frame(&mut body).await {
            assert_eq!(slots.used(), 1);
            read += frame.unwrap().into_data().unwrap().len();
            assert_eq!(body.size_hint().exact(), Some(100_000 - read as u64));
        }
        // Another has less: the connection is cut.
        let other = pool.take(Owner::Token(2), 60_000, u64::MAX);
        assert!(other.is_ok());
        cut.0.notified().await;
        drop(body);
        assert_eq!((read, slots.used(), pool.used()), (100_000, 0, 60_000));
    }
}
