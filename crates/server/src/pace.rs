//! A connection whose other end must read: a client that asks for much and reads it slowly holds memory, so it may take
//! `patience`, and a second more for every [`LEAST_RATE`] bytes that it did read.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};

/// Bytes a second that a client reads at least, once it is waited for.
const LEAST_RATE: u64 = 16 * 1024;

/// A stream that gives up clients which do not read.
pub(crate) struct Paced<S> {
    stream: S,
    patience: Duration,
    /// Since when it is waited for, and what was read since.
    waiting: Option<(Instant, u64)>,
    deadline: Pin<Box<Sleep>>,
}

impl<S: AsyncWrite + Unpin> Paced<S> {
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None, deadline: Box::pin(sleep_until(Instant::now())) }
    }

    fn paced(&mut self, context: &mut Context<'_>, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Ok(bytes)) => {
                if let Some((_, read)) = &mut self.waiting {
                    *read += bytes as u64;
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                let (since, read) = *self.waiting.get_or_insert_with(|| (Instant::now(), 0));
                let until = since + self.patience + Duration::from_secs(read / LEAST_RATE);
                if self.deadline.deadline() != until {
                    self.deadline.as_mut().reset(until);
                }
                ready!(self.deadline.as_mut().poll(context));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end does not read")))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.paced(context, wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.paced(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Asked for when everything was handed over: nobody is waited for then.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.waiting = None;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn who_reads_a_little_now_and_then_is_let_go() {
        let (near, mut far) = duplex(1024);
        let mut near = Paced::new(near, Duration::from_secs(15));
        let reader = tokio::spawn(async move {
            let mut byte = [0; 64];
            while far.read_exact(&mut byte).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        });
        let started = Instant::now();
        let error = near.write_all(&[0; 1024 * 1024]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(17), "{:?}", started.elapsed());
        drop(near);
        reader.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_steadily_gets_everything() {
        let (near, mut far) = duplex(1024);
        let mut near = Paced::new(near, Duration::from_secs(15));
        let reader = tokio::spawn(async move {
            let (mut part, mut all) = ([0; 1024], 0);
            while far.read_exact(&mut part).await.is_ok() {
                all += part.len();
                tokio::time::sleep(Duration::from_millis(40)).await;
            }
            all
        });
        // Forty seconds, which is longer than nothing may be read.
        near.write_all(&[0; 1024 * 1024]).await.unwrap();
        near.flush().await.unwrap();
        drop(near);
        assert_eq!(reader.await.unwrap(), 1024 * 1024);
    }
}
