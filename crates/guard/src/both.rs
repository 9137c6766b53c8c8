//! Two pieces of work on a large message at the same time, each on a thread.

/// Bytes of a message from which on a second thread is worth starting.
pub(crate) const LARGE_BYTES: usize = 1024 * 1024;

/// Does `one` and `other`, at the same time where `large` is set. Where there is no thread to be had, one after the other.
pub(crate) fn both<A, B: Send>(large: bool, one: impl FnOnce() -> A, other: impl Fn() -> B + Sync) -> (A, B) {
    if !large {
        return (one(), other());
    }
    std::thread::scope(|scope| {
        let aside = std::thread::Builder::new().spawn_scoped(scope, &other);
        let done = one();
        (done, aside.ok().and_then(|aside| aside.join().ok()).unwrap_or_else(&other))
    })
}

#[cfg(test)]
mod tests {
    use super::both;

    #[test]
    fn both_are_done_however_large() {
        for large in [false, true] {
            assert_eq!(both(large, || 1, || "two"), (1, "two"));
        }
    }
}
